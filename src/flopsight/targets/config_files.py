"""Configurations of Hugging Face models on this machine: a file, a folder, the hub's cache, or a preset of ours."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, did_you_mean
from .complaints import no_file
from .presets import find_preset, preset_names

CONFIG = "config.json"


@dataclass(frozen=True)
class Configuration:
    """What a configuration says, and where it was found."""

    values: dict[str, Any]
    origin: str


def is_path(name: str) -> bool:
    """Whether a name means a file or folder here rather than something on the hub."""
    return name.startswith((".", "/", "~")) or name.endswith(".json") or Path(name).exists()


def read_configuration(name: str) -> Configuration:
    """The configuration in a file, or in a folder's `config.json`."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise InputError(f"The folder {name} has no {CONFIG}.{_parts(name)}")
        path /= CONFIG
    if not path.is_file():
        raise no_file(name, path, ".json")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a configuration: it is not text. Name the {CONFIG} beside it.") from None
    except json.JSONDecodeError as problem:
        raise InputError(f"{path} is not a configuration: it is not JSON ({problem}).") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} is not a configuration: it holds a {type(values).__name__}, not names with values.")
    return Configuration(values, str(path))


def _parts(name: str) -> str:
    """The models inside a folder that has no configuration of its own, as a pipeline of diffusers has them."""
    path = Path(name).expanduser()
    parts = sorted(inner.parent.name for inner in path.glob(f"*/{CONFIG}"))
    if not parts:
        return ""
    first = f"{name.rstrip('/')}/{parts[0]}"
    kind = "diffusers" if (path / "model_index.json").is_file() else "hf"
    return f" It holds {', '.join(parts)}: name one of them, {kind}:{first}."


def cached_configuration(name: str, subfolder: str = "") -> Configuration | None:
    """The configuration of a hub name that was downloaded before; the network is never asked."""
    home = hub_cache() / f"models--{name.replace('/', '--')}"
    main = home / "refs" / "main"
    snapshots = sorted((home / "snapshots").glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
    if main.is_file():
        snapshots.insert(0, home / "snapshots" / main.read_text(encoding="utf-8").strip())
    for snapshot in snapshots:
        if (snapshot / subfolder / CONFIG).is_file():
            return read_configuration(str(snapshot / subfolder / CONFIG))
    return None


def hub_cache() -> Path:
    """Where Hugging Face's libraries keep what they download."""
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"]).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    return Path(home).expanduser() / "hub"


def cached_names() -> list[str]:
    """The hub names in the cache whose configurations are there."""
    homes = {path.parents[2].name for path in hub_cache().glob(f"models--*/snapshots/*/{CONFIG}")}
    return sorted(home.removeprefix("models--").replace("--", "/") for home in homes)


def find_configuration(name: str, model_types: dict[str, str]) -> Configuration:
    """What `hf:NAME` means: a path, a preset, a model type, or a name in the hub's cache."""
    if is_path(name):
        return read_configuration(name)
    preset = find_preset(name)
    if preset is not None and "/" not in name:
        return Configuration(preset.config, preset.source)
    if name in model_types:
        return Configuration({"model_type": name}, f"the default configuration of {name}")
    if "/" in name:
        cached = cached_configuration(name)
        if cached is not None:
            return cached
        if preset is not None:
            return Configuration(preset.config, preset.source)
        near = did_you_mean(name, cached_names())
        raise InputError(
            f"{name} is not in the hub's cache ({hub_cache()}), and nothing is downloaded unasked. "
            f"Ask for its configuration: hf download {name} {CONFIG}{f'.{near}' if near else ''}"
        )
    known = [*preset_names(), *model_types]
    raise InputError(
        f"transformers has no model type {name!r}, and there is no preset of that name."
        f"{did_you_mean(name, known) or ' See `flopsight targets hf`.'}"
    )


def check_configuration(name: str, found: Configuration, model_types: dict[str, str]) -> None:
    """Refuse what transformers could not build from, in one sentence."""
    values = found.values
    kind = values.get("model_type")
    if kind in model_types:
        return
    if "_class_name" in values:
        raise InputError(f"{found.origin} configures {values['_class_name']} of diffusers: name it diffusers:{name}.")
    if "auto_map" in values:
        raise InputError(
            f"{found.origin} needs code from the hub (auto_map), which is not run. Write a file with a function that "
            f"returns the model, and profile file.py:function."
        )
    if kind is None:
        raise InputError(
            f"{found.origin} is not a configuration of a model: it has no model_type. Name the {CONFIG} of a transformers model."
        )
    raise InputError(
        f"{found.origin} has the model_type {kind!r}, which transformers here does not know.{did_you_mean(str(kind), model_types)}"
    )
