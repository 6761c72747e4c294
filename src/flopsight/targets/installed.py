"""What installed libraries offer, read from their files: importing transformers or timm would import torch first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ..errors import InputError

REGISTERED = re.compile(
    r"""^@register_model(?:\((?:name="(?P<name>\w+)")?[^)]*\))?\n(?:@.*\n|\s.*\n|\).*\n)*?def (?P<function>\w+)\(""",
    re.MULTILINE,
)
"""A model of timm or torchvision: registered under its function's name, or under one that is given."""
CONFIG_TABLES = ("auto_mappings.py", "configuration_auto.py")
SIGHT_AND_SOUND = re.compile(r"pixel_values|input_features|input_values|backbone|timm|torchvision|torchaudio|scipy")
"""What a model that sees or hears has in its source."""
DIFFUSERS_MODEL = re.compile(r"^class ([A-Z]\w*)\([^)]*ModelMixin[^)]*\)", re.MULTILINE)


@cache
def library_folder(name: str) -> Path | None:
    """Where a library is installed; None if it is not."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def needed_folder(name: str) -> Path:
    """Where a library is installed, or an error that says how to install it."""
    folder = library_folder(name)
    if folder is None:
        raise InputError(f"{name} is not installed here. Install it: pip install {name}")
    return folder


@cache
def model_types() -> dict[str, str]:
    """The model types of transformers with the names of their configuration classes."""
    folder = needed_folder("transformers") / "models" / "auto"
    found: dict[str, str] = {}
    for file in CONFIG_TABLES:
        path = folder / file
        if path.exists():
            found |= _table(path, "CONFIG_MAPPING_NAMES")
    return found


def _table(path: Path, name: str) -> dict[str, str]:
    """The pairs of strings that a file puts under a name, by assignment or by `update`."""
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if name not in ast.unparse(node).partition("\n")[0]:
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
                found |= _pair(*inner.elts)
            elif isinstance(inner, ast.Dict):
                for key, value in zip(inner.keys, inner.values, strict=True):
                    found |= _pair(key, value) if key is not None else {}
    return found


def _pair(key: ast.expr, value: ast.expr) -> dict[str, str]:
    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
        return {str(key.value): str(value.value)}
    return {}


@cache
def config_sources(model_type: str) -> tuple[Path, ...]:
    """The files in which the configuration of a model type is written; empty if they are not found."""
    folder = needed_folder("transformers")
    declared = f"class {model_types().get(model_type)}("
    for name in (model_type.replace("-", "_"), *_sibling_folders(model_type)):
        for path in sorted((folder / "models" / name).glob("configuration_*.py")):
            if declared in path.read_text(encoding="utf-8"):
                return (path, folder / "configuration_utils.py", folder / "modeling_rope_utils.py")
    return ()


def is_text_model(model_type: str) -> bool:
    """Whether a model type of transformers works on nothing but text, by its source; no if that is not found."""
    models = [path for source in config_sources(model_type)[:1] for path in source.parent.glob("modeling_*.py")]
    return bool(models) and not any(SIGHT_AND_SOUND.search(path.read_text(encoding="utf-8")) for path in models)


def _sibling_folders(model_type: str) -> list[str]:
    """`gemma3_text` is configured in the folder of `gemma3`."""
    words = model_type.replace("-", "_").split("_")
    return ["_".join(words[:length]) for length in range(len(words) - 1, 0, -1)]


def config_words(model_type: str) -> set[str]:
    """Every word in the sources of a model type's configuration: a key that is not among them does not exist."""
    return {
        word for path in config_sources(model_type) for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }


def config_keys(model_type: str) -> list[str]:
    """The keys that the configuration of a model type declares, for suggestions."""
    sources = config_sources(model_type)
    declared = re.compile(r"^    ([a-z]\w*): ", re.MULTILINE)
    return [key for path in sources[:2] for key in declared.findall(path.read_text(encoding="utf-8"))]


@cache
def registered_models(library: str) -> tuple[str, ...]:
    """The models that timm or torchvision register, by name."""
    return tuple(sorted({found["name"] or found["function"] for found in _models(library, REGISTERED)}))


@cache
def diffusers_models() -> tuple[str, ...]:
    """The model classes of diffusers."""
    return tuple(sorted({found[1] for found in _models("diffusers", DIFFUSERS_MODEL)}))


def _models(library: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    for path in (needed_folder(library) / "models").rglob("*.py"):
        yield from pattern.finditer(path.read_text(encoding="utf-8"))


def optimizers() -> list[str]:
    """The optimizers of torch.optim in small letters, read from the names of their files."""
    files = (needed_folder("torch") / "optim").glob("*.py")
    names = {path.stem.strip("_").replace("_", "") for path in files}
    return sorted(names - {"init", "functional", "lrscheduler", "optimizer", "stateless", "swautils"})
