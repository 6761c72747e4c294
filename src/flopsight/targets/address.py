"""The text of a target taken apart: which library or file, which name in it, which changes; nothing is looked up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError
from .changes import EXAMPLE, parse_changes

HELP = (
    "file.py:Class:width=32, package.module:name, zoo:resnet18, hf:llama-3.1-8b, hf:./config.json, timm:resnet50, "
    "torchvision:resnet50 or diffusers:UNet2DConditionModel. Changes go after a second colon: hf:llama:num_hidden_layers=2."
)
LIBRARIES = ("zoo", "hf", "timm", "torchvision", "diffusers")
FILE, MODULE = "file", "module"
SEPARATOR = re.compile(r":(?![\\/])|(?<=\w\w):")
"""A colon, but not the one of a drive: C:\\net.py:Net is a file and a name."""
NO_MODELS = {
    ".pt": "a file of weights", ".pth": "a file of weights", ".bin": "a file of weights", ".ckpt": "a file of weights",
    ".safetensors": "a file of weights", ".gguf": "a file of weights", ".onnx": "an ONNX graph", ".pb": "a TensorFlow graph",
    ".yaml": "a file of settings", ".yml": "a file of settings", ".toml": "a file of settings", ".ipynb": "a notebook",
}  # fmt: skip
"""Files that a user has at hand and that make no PyTorch model by themselves, by suffix."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a model is: `net.py:Net:width=32` is the file `net.py`, the name `Net`, and a change."""

    text: str
    kind: str
    """One of LIBRARIES, FILE or MODULE."""
    home: str
    """The file or module; empty for a library."""
    name: str
    changes: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The target without its changes, for sentences about it."""
        return f"{self.home or self.kind}:{self.name}"


def parse_address(text: str) -> Address:
    """Take a target apart."""
    parts = SEPARATOR.split(text.rstrip(":") if text.count(":") > 1 else text)
    first_change = next((place for place, part in enumerate(parts) if place and "=" in part), len(parts))
    head, tail = parts[:first_change], ":".join(parts[first_change:])
    changes = parse_changes(tail) if tail else {}
    scheme = head[0]
    if scheme in LIBRARIES and (len(head) < 2 or not head[1]):
        raise InputError(f"{text!r} names no model of {scheme}. See `flopsight targets {scheme}`.")
    if len(head) > 2:
        raise InputError(f"{head[2]!r} in {text} changes nothing. Changes look like {scheme}:{head[1]}:{EXAMPLE}.")
    if scheme in LIBRARIES:
        return Address(text, scheme, "", head[1], changes)
    is_file = scheme.endswith(".py")
    if len(head) < 2 and not is_file:
        raise InputError(f"{text!r} names no model.{_better(scheme)} A target is {HELP}")
    name = (head[1] if len(head) > 1 else "") or "model"
    return Address(text, FILE if is_file else MODULE, scheme, name, changes)


def _better(text: str) -> str:
    """The target that a bare word most likely means."""
    from .. import zoo
    from .presets import find_preset

    kind = next((meaning for suffix, meaning in NO_MODELS.items() if text.endswith(suffix)), None)
    if kind is not None:
        return f" It is {kind}; a model is its code, file.py:Class, or its configuration, hf:./config.json."
    if text.endswith(".json") or (text and Path(text).is_dir()):
        return f" Did you mean 'hf:{text}'?"
    if find_preset(text) is not None:
        return f" Did you mean 'hf:{text}'?"
    return f" Did you mean 'zoo:{text}'?" if text in zoo.names() else ""
