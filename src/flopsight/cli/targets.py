"""`flopsight targets`: what can be profiled here, without importing torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from .. import units, zoo
from ..errors import InputError, did_you_mean
from ..targets import installed
from ..targets.config_files import cached_names, hub_cache
from ..targets.presets import find_preset, preset_names

PACKAGES = {"hf": "transformers", "timm": "timm", "torchvision": "torchvision", "diffusers": "diffusers"}
"""The library that each kind of target comes from."""


def targets(
    word: Annotated[
        str | None,
        typer.Argument(metavar="[WORD]", help="Only names with this word in them; hf, timm, ... lists a whole kind."),
    ] = None,
) -> None:
    """List what can be profiled here: embedded models, presets, cached names, and models of installed libraries."""
    if word is None:
        for line in _overview():
            print(line)
        return
    found = list(matching(word))
    if not found:
        names = [name for kind in PACKAGES for name in names_of(kind)]
        raise InputError(f"Nothing here has {word!r} in its name.{did_you_mean(word, names)}")
    for target, about in found:
        print(f"{target:<44}{about}".rstrip())


def matching(word: str) -> Iterable[tuple[str, str]]:
    """Targets whose name has a word in it, each with what is known of it; a kind's own name means all of its targets."""
    wanted = word.lower().removesuffix(":")
    for entry in zoo.entries():
        if wanted == "zoo" or wanted in entry.name:
            yield f"zoo:{entry.name}", entry.about
    for name in preset_names():
        preset = find_preset(name)
        if preset is not None and (wanted == "hf" or wanted in name or wanted in preset.hub.lower()):
            yield f"hf:{name}", f"preset, {units.si(preset.params)} parameters, {preset.hub}"
    for name in cached_names():
        if wanted == "hf" or wanted in name.lower():
            yield f"hf:{name}", "configuration in the hub's cache"
    for kind, library in PACKAGES.items():
        for name in names_of(kind):
            if wanted == kind or wanted in name.lower():
                yield f"{kind}:{name}", f"model type of {library}" if kind == "hf" else ""


def names_of(kind: str) -> list[str]:
    """The names that an installed library offers; none if it is not installed."""
    if installed.library_folder(PACKAGES[kind]) is None:
        return []
    if kind == "hf":
        return sorted(set(installed.model_types()) - set(preset_names()))
    return list(installed.diffusers_models() if kind == "diffusers" else installed.registered_models(kind))


def _overview() -> Iterable[str]:
    yield "Your own:         file.py:Class:width=32, package.module:function"
    yield f"Embedded:         {', '.join(f'zoo:{name}' for name in zoo.names())}"
    yield f"Presets:          {', '.join(f'hf:{name}' for name in preset_names())}"
    cached = cached_names()
    yield f"Hub's cache:      {', '.join(f'hf:{name}' for name in cached) or f'nothing in {hub_cache()}'}"
    for kind, library in PACKAGES.items():
        names = names_of(kind)
        what = f"{len(names)} names; flopsight targets {kind}" if names else f"not installed: pip install {library}"
        yield f"{kind + ':NAME':<18}{what}"
