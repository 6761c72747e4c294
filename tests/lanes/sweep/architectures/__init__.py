"""The architectures of the sweep, by name."""

from . import diffusion, graphs, images, medical, others, sequence_models, vision_transformers
from .entry import Architecture, Example

FILES = (vision_transformers, sequence_models, medical, graphs, images, diffusion, others)
ARCHITECTURES: dict[str, Architecture] = {}
for _file in FILES:
    for _entry in _file.ENTRIES:
        assert _entry.name not in ARCHITECTURES, _entry.name
        ARCHITECTURES[_entry.name] = _entry

__all__ = ["ARCHITECTURES", "Architecture", "Example"]
