"""The one pass over a target before torch, transformers or the user's code is imported: files alone show these mistakes."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from .. import zoo
from ..errors import InputError, did_you_mean
from . import config_files, installed
from .address import HELP, LIBRARIES, Address, parse_address
from .calls import check_inputs
from .changes import typed, typed_by_signature
from .complaints import missing_name, no_file, unknown_key, unknown_model, unknown_optimizer
from .inputs import Spec
from .source_names import SourceFile
from .users import users_code

SIZE = re.compile(r"(?:^|\.)(num|n)_|_(size|dim|heads|layers|experts|embeddings)$")
"""Keys of configurations that say how many there are of something, or how large it is."""
DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "meta")


Specs = Sequence[Spec] | None
"""The inputs that a target is to be called with; None if they are not asked about."""


def find_target(text: str, specs: Specs = None, *, complete: bool = True) -> Address:
    """A target taken apart and looked up as far as files alone can answer; one that is not complete gets more changes."""
    address = parse_address(text)
    if complete:
        check_target(address, specs)
    if find_spec("torch") is None:
        raise InputError(
            "torch is not installed here, and a model needs it. Install it: pip install 'flopsight[torch]'"
        )
    return address


def check_target(address: Address, specs: Specs = None) -> None:
    """Refuse what the files of the user and of installed libraries show to be wrong.

    Inputs are refused that the forward of a class in the user's file does not take, if the file says what it takes.
    """
    CHECKS[address.kind](address, specs)


def check_names(device: str | None, optimizer: str | None, *, meta: bool) -> None:
    """Refuse a misspelt device and an optimizer that torch.optim does not have; a run on meta has no device."""
    if meta and device:
        raise InputError("--meta runs on no device; leave out --device or --meta.")
    if device:
        check_device_name(device)
    if optimizer and optimizer.lower() not in installed.optimizers():
        raise unknown_optimizer(optimizer, installed.optimizers())


def check_device_name(device: str) -> None:
    """Refuse a misspelt device; what is like none of torch's own may be that of an extension."""
    kind = device.partition(":")[0]
    meant = "cuda" if kind == "gpu" else next(iter(get_close_matches(kind, DEVICE_TYPES, n=1)), None)
    if kind not in DEVICE_TYPES and meant is not None:
        raise InputError(f"There is no device {device!r}. Did you mean {meant!r}?")


def _check_zoo(address: Address, _: Specs) -> None:
    entry = zoo.find(address.name)
    source = SourceFile(Path(zoo.__file__).parent / f"{entry.home}.py")
    _check_arguments(address, source.signature(entry.factory))


def _check_hugging_face(address: Address, _: Specs) -> None:
    model_types = installed.model_types()
    found = config_files.find_configuration(address.name, model_types)
    config_files.check_configuration(address.name, found, model_types)
    kind = found.values["model_type"]
    words = installed.config_words(kind)
    for key, text in address.changes.items():
        outer = key.partition(".")[0]
        if words and outer not in words and outer not in found.values:
            raise unknown_key(kind, key, [*found.values, *installed.config_keys(kind)])
        if key in found.values and text.lower() not in ("none", "null"):
            typed(f"the configuration of {kind}", key, text, None, found.values[key])
        if SIZE.search(key) and text.startswith("-"):
            raise InputError(f"{key} of the configuration of {kind} is a size; {text} is below zero.")


def _check_registered(address: Address, _: Specs) -> None:
    names = installed.registered_models(address.kind)
    name = address.name.partition(".")[0]  # timm's names may end in the tag of their weights
    if name not in names:
        raise unknown_model(address.kind, address.name, names, name)


def _check_diffusers(address: Address, _: Specs) -> None:
    if config_files.is_path(address.name) or "/" in address.name:
        installed.needed_folder("diffusers")
        if config_files.is_path(address.name):
            config_files.read_configuration(address.name)
        return
    names = installed.diffusers_models()
    if address.name not in names:
        raise unknown_model("diffusers", address.name, names)


def _check_file(address: Address, specs: Specs) -> None:
    path = Path(address.home)
    if not path.is_file():
        raise no_file(str(path), path, ".py")
    _check_source(address, path, specs)


def _check_module(address: Address, specs: Specs) -> None:
    top = address.home.partition(".")[0]
    if not top.isidentifier():
        raise InputError(f"{address.text!r} names no model. A target is {HELP}")
    if top in sys.modules:
        return
    here = Path.cwd()
    local = [path for path in (here / f"{top}.py", here / top) if path.exists()]
    if not local and find_spec(top) is None:
        library = next(iter(get_close_matches(top.lower(), LIBRARIES, n=1)), None)
        meant = f" Did you mean '{library}:{address.name}'?" if library else ""
        raise InputError(f"There is no module {top!r} to import {address.home} from.{meant} A target is {HELP}")
    folder = here.joinpath(*address.home.split("."))
    path = folder.with_suffix(".py")
    if path.is_file():
        _check_source(address, path, specs)
    elif path.parent.is_dir() and path.parent != here and not folder.is_dir():
        package = address.home.rpartition(".")[0]
        nearby = [f"{package}.{near.stem}" for near in path.parent.glob("*.py")]
        if not list(path.parent.glob(f"{path.stem}.*")):  # a compiled module has a suffix of its own
            raise InputError(f"There is no module {address.home!r}.{did_you_mean(address.home, nearby)}")


def _check_source(address: Address, path: Path, specs: Specs) -> None:
    with users_code(address.text):
        source = SourceFile(path)
    names = source.names
    first, *inner = address.name.split(".")
    if names is not None and first not in names:
        raise missing_name(address, sorted(names), [name for name in source.definitions if not name.startswith("_")])
    if not inner:
        _check_arguments(address, source.signature(first))
        forward = source.forward(first) if specs is not None else None
        if forward is not None and specs is not None:
            check_inputs(address.text, first, forward, specs)


def _check_arguments(address: Address, signature: inspect.Signature | None) -> None:
    """Refuse changes that a class or function does not take, and a call without what it needs."""
    if signature is not None:
        hints = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        typed_by_signature(address.shown, signature, hints, address.changes)


CHECKS: Mapping[str, Callable[[Address, Specs], None]] = {
    "zoo": _check_zoo,
    "hf": _check_hugging_face,
    "timm": _check_registered,
    "torchvision": _check_registered,
    "diffusers": _check_diffusers,
    "file": _check_file,
    "module": _check_module,
}
