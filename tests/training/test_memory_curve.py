"""Memory over a training step, by kind, worked out by hand for two layers and AdamW."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn
from training.transformer import Transformer, tokens

import flopsight
from flopsight.errors import ProfileFileError
from flopsight.files import store

ON = pytest.mark.parametrize("on", ["real", "meta"])
ROWS, INTO, HIDDEN, OUT = 64, 8, 16, 2
FLOAT = 4
UP, DOWN = INTO * HIDDEN * FLOAT, HIDDEN * OUT * FLOAT
"""Bytes of the two weights."""
INPUT, INNER, OUTPUT = ROWS * INTO * FLOAT, ROWS * HIDDEN * FLOAT, ROWS * OUT * FLOAT
"""Bytes of the rows before, between and after the layers."""
STATE = 2 * (UP + DOWN) + 2 * FLOAT
"""AdamW's two averages of each weight, and its two counts of steps."""


def trained(on="real"):
    model = nn.Sequential(nn.Linear(INTO, HIDDEN, bias=False), nn.Linear(HIDDEN, OUT, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    return flopsight.count(model, (torch.randn(ROWS, INTO),), train=True, optimizer=optimizer, on=on)


def of_phase(curve, phase):
    """Bytes that come and go, by kind, at each point of a phase."""
    changing = ("activations", "gradients", "temporaries")
    return [
        tuple(curve.kinds[kind][i] for kind in changing) for i, one in enumerate(curve.phases) if one == phase
    ]  # fmt: skip


@ON
def test_two_layers_and_adamw_rise_and_fall_as_by_hand(on):
    curve = trained(on).memory_curve
    loss, seed = FLOAT, FLOAT  # the sum of the outputs, and the one that backward begins with
    held = OUTPUT + loss

    assert set(curve.kinds["parameters"]) == {UP + DOWN}
    assert set(curve.kinds["inputs"]) == {INPUT}
    assert set(curve.kinds["optimizer"]) == {STATE}
    assert of_phase(curve, "") == [(0, 0, 0)]
    assert of_phase(curve, "forward") == [
        (INNER, 0, 0),
        (INNER, 0, OUTPUT),
        (INNER, 0, OUTPUT + loss),
        (INNER, 0, OUTPUT + loss + seed),
    ]
    assert of_phase(curve, "backward") == [
        (INNER, DOWN, held + seed),
        (INNER, DOWN, held + seed + INNER),  # the gradient of what is between the layers
        (0, DOWN, held + seed + INNER),
        (0, DOWN + UP, held + seed + INNER),
        (0, DOWN + UP, held + seed),
        (0, DOWN + UP, held),
        (0, DOWN + UP, OUTPUT),
    ]
    step = of_phase(curve, "optimizer")
    assert {gradients for _, gradients, _ in step} == {UP + DOWN}
    assert max(temporaries for _, _, temporaries in step) == OUTPUT + 2 * UP  # a root, and a quotient of its size


@ON
def test_the_highest_point_is_the_peak_in_the_module_that_made_it(on):
    profile = trained(on)
    curve = profile.memory_curve
    i = curve.highest

    assert curve.total[i] == max(curve.total) == profile.peak_bytes
    assert {kind: sizes[i] for kind, sizes in curve.kinds.items() if sizes[i]} == profile.at_peak
    assert (curve.phases[i], curve.modules[i]) == ("backward", "1")


@ON
def test_what_a_checkpoint_makes_again_rises_within_backward(on):
    curve = flopsight.count(Transformer("non-reentrant"), (tokens(),), train=True, on=on).memory_curve

    first = curve.phases.index("recompute")

    assert "backward" in curve.phases[:first]
    assert not any(curve.kinds["recomputed"][:first])
    assert any(curve.kinds["recomputed"][first:])


def test_without_memory_there_is_no_curve():
    profile = flopsight.profile(nn.Linear(2, 2), (torch.randn(1, 2),), latency=False, memory=False)

    assert profile.memory_curve is None


def test_a_curve_is_saved_and_read():
    profile = trained()

    assert store.loads(store.dumps(profile)).memory_curve == profile.memory_curve


def test_a_file_without_a_curve_is_read():
    older = replace(trained(), memory_curve=None)

    assert "memory_curve" not in store.dumps(older)
    assert store.loads(store.dumps(older)) == older


@pytest.mark.parametrize("column", ["at", "modules", "phases", "kinds"])
def test_a_curve_whose_columns_differ_in_length_is_damaged(column):
    page = json.loads(store.dumps(trained()))
    curve = page["profile"]["memory_curve"]
    (curve["kinds"]["inputs"] if column == "kinds" else curve[column]).pop()

    with pytest.raises(
        ProfileFileError, match=r"damaged flopsight profile: profile\.memory_curve does not have one value"
    ):
        store.loads(json.dumps(page))
