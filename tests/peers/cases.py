"""Every case by its name."""

from peers import layers, models, structures, training

FORWARD = {case.name: case for case in [*layers.CASES, *structures.CASES, *models.CASES]}
TRAINING = {f"training: {case.name}": case for case in training.CASES}
CASES = {**FORWARD, **TRAINING}
