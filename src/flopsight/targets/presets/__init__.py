"""Configurations of well-known sizes, each a file here with where it was published and its parameters as published."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Preset:
    """One published size of a model."""

    name: str
    hub: str
    """Its name on the Hugging Face hub."""
    source: str
    params: int
    """Parameters as published; tied ones once."""
    config: dict[str, Any]


@cache
def preset_names() -> tuple[str, ...]:
    """The names that `hf:NAME` takes as presets."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def find_preset(name: str) -> Preset | None:
    """A preset by its name, or by its name on the hub."""
    wanted = name.lower().replace("_", "-")
    if wanted in preset_names():
        return _read(wanted)
    if "/" in wanted:
        return next((preset for preset in map(_read, preset_names()) if preset.hub.lower() == name.lower()), None)
    return None


@cache
def _read(name: str) -> Preset:
    return Preset(name, **json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))
