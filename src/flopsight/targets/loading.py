"""A target turned into a model and what to call it with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import units, zoo
from ..errors import InputError
from ..files.collector import collector_paused
from .address import HELP, Address
from .blueprint import Blueprint, Call, Sizes
from .calls import check_call, check_passed_on, needs_inputs
from .changes import typed_arguments
from .complaints import without_inputs
from .early_checks import find_target
from .inputs import Spec, batch_and_tokens, described, make_inputs
from .room import build_within_memory
from .users import users_code

if TYPE_CHECKING:
    import torch
    from torch import nn


__all__ = ["HELP", "Target", "find_target", "load_target"]


@dataclass(frozen=True)
class Target:
    """A model and what to call it with."""

    text: str
    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""
    """Inputs that were made without being asked for, in words."""

    def calling(self) -> AbstractContextManager[None]:
        """A context for calls of the model: what its code raises becomes TargetRaised, with the shapes of the inputs."""
        return users_code(self.text, described(self.args, self.kwargs))


def load_target(
    text: str | Address,
    specs: Sequence[Spec] = (),
    *,
    device: str | None = None,
    dtype: str | None = None,
    meta: bool = False,
    train: bool = False,
    optimizer: bool = False,
    sizes: Sizes | None = None,
    generates: bool = False,
) -> Target:
    """The model that a target names, on its device and in its dtype, with inputs that fit its forward.

    If it `generates`, a model type of transformers comes with its vocabulary head.
    """
    address = find_target(text) if isinstance(text, str) else text
    with collector_paused():  # torch makes half a million objects when it is imported, model libraries many more
        from ..capture.hooks.garbage import rarer_collections
        from ..capture.model.restore import kept_rng
    with kept_rng():
        with collector_paused():
            blueprint = make_blueprint(address, generates=generates)
        with rarer_collections():
            target, brought = build_target(
                address, blueprint, device=device, dtype=dtype, meta=meta, train=train, optimizer=optimizer
            )
            return call_with(target, brought, blueprint, specs, sizes or Sizes(), train=train)


def build_target(
    address: Address,
    blueprint: Blueprint,
    *,
    device: str | None = None,
    dtype: str | None = None,
    meta: bool = False,
    train: bool = False,
    optimizer: bool = False,
) -> tuple[Target, Call]:
    """The model of a blueprint, and the inputs that it brought along."""
    import torch

    if device is not None:
        _check_device(device)
    if meta:
        built = _built_on_meta(blueprint)
    else:
        built = build_within_memory(address.text, blueprint.build, device=device, train=train, optimizer=optimizer)
    model, brought = built if isinstance(built, tuple) else (built, Call())
    if device or dtype:
        with users_code(address.text):
            model = model.to(device=device, dtype=getattr(torch, dtype) if dtype else None)
    return Target(address.text, model), brought


def _built_on_meta(blueprint: Blueprint) -> Any:
    from ..capture.twin.meta_build import building_on_meta, settle_on_meta

    with building_on_meta():
        built = blueprint.build()
    settle_on_meta(built[0] if isinstance(built, tuple) else built)
    return built


def call_with(
    target: Target, brought: Call, blueprint: Blueprint, specs: Sequence[Spec], sizes: Sizes, *, train: bool = False
) -> Target:
    """The target with the inputs that were asked for, else those it brought, else those that its blueprint makes.

    To `train`, a model that takes labels gets them too.
    """
    import torch

    model = target.model
    parameter = next(model.parameters(), None)
    device = parameter.device if parameter is not None else torch.get_default_device()
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
    args, kwargs = make_inputs(specs, model, by_name=blueprint.fills_in)
    made = Call()
    if blueprint.fills_in or not (specs or brought.args or brought.kwargs):
        batch, tokens = batch_and_tokens(specs)
        with torch.device("meta") if device.type == "meta" else nullcontext():
            made = blueprint.inputs(model, Sizes(sizes.batch or batch, sizes.seq or tokens))
    if specs:
        # embeddings that were handed in take the place of tokens
        replaced = any(name.endswith("embeds") for name in kwargs)
        left_out = made.together if any(name in made.together for name in kwargs) else ()
        more = {} if replaced else {name: value for name, value in made.kwargs.items() if name not in left_out}
        call = Call(args, {**moved(more, device, dtype), **kwargs})
    else:
        call = brought if brought.args or brought.kwargs else made
        _check_sequence(target.text, call, sizes.seq, own=call is brought)
        call = Call(moved(call.args, device, dtype), moved(call.kwargs, device, dtype), call.remark)
    labels = blueprint.labels(model, call.kwargs) if train else {}
    if labels:
        said = f"labels {units.shape(labels['labels'].shape)}"
        call = replace(call, kwargs={**call.kwargs, **labels}, remark=f"{call.remark}, {said}" if call.remark else said)
    forward = inspect.signature(model.forward)
    if not call.args and not call.kwargs and needs_inputs(forward):
        raise without_inputs(target.text)
    check_call(type(model).__name__, forward, call.args, call.kwargs)
    if blueprint.fills_in:
        from ..capture.model.positions import check_positions

        check_passed_on(model, [spec.name for spec in specs if spec.name])
        check_positions(target.text, model, call.kwargs)
    return replace(target, args=call.args, kwargs=call.kwargs, remark=call.remark)


def moved(value: Any, device: torch.device, dtype: torch.dtype | None) -> Any:
    """Inputs on a device and their floats in a dtype; on meta, whole numbers keep their values for code that asks."""
    import torch

    if isinstance(value, Mapping):
        return {name: moved(item, device, dtype) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(moved(item, device, dtype) for item in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point() and dtype is not None:
        value = value.to(dtype)
    if device.type == "meta" and not value.is_meta:
        from ..capture.twin.meta_copy import on_meta

        return value.to(device) if value.is_floating_point() else on_meta(value)
    return value.to(device)


def make_blueprint(address: Address, *, generates: bool = False) -> Blueprint:
    """How the target is built."""
    from . import code, diffusion, hugging_face, vision

    builders: Mapping[str, Callable[[Address], Blueprint]] = {
        "zoo": zoo_blueprint,
        "hf": partial(hugging_face.hugging_face_blueprint, generates=generates),
        "timm": vision.timm_blueprint,
        "torchvision": vision.torchvision_blueprint,
        "diffusers": diffusion.diffusers_blueprint,
        "file": code.code_blueprint,
        "module": code.code_blueprint,
    }
    return builders[address.kind](address)


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as problem:
        lacking = isinstance(problem, NotImplementedError | ImportError)  # torch then names every backend that it has
        said = "this torch is built without it" if lacking else str(problem).splitlines()[0]
        raise InputError(f"There is no device {device!r} here: {said.rstrip('.')}. See `flopsight device`.") from None


def _check_sequence(text: str, call: Call, seq: int | None, *, own: bool) -> None:
    """Refuse a length of sequences that would change nothing."""
    if seq is None or not (call.args or call.kwargs):
        return
    from ..distributed.sequence_parts import sequence_length

    length = sequence_length((call.args, call.kwargs))
    if length is None:
        raise InputError(
            f"{text} reads no sequence of tokens{f' ({call.remark})' if call.remark else ''}; leave out seq."
        )
    if own and length != seq:
        raise InputError(
            f"{text} brings inputs of its own, of {length:,} tokens, which seq={seq} would not change; leave out seq, or state the inputs: "
            f"-i 1x{seq}:int64."
        )


def zoo_blueprint(address: Address) -> Blueprint:
    """One of the embedded models with a small batch."""
    arguments = typed_arguments(address.shown, zoo.factory(address.name), address.changes)

    def inputs(_: Any, sizes: Any) -> Call:
        example = zoo.example_inputs(address.name, sizes.batch, sizes.seq)
        return Call(*example)

    return Blueprint(lambda: zoo.factory(address.name)(**arguments), inputs)
