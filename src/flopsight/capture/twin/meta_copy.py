"""A meta twin: the same model without data, so that counting it runs no kernel and touches nothing of the user's."""

from __future__ import annotations

import copy
from dataclasses import replace
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from ..count.tape import Tape
from ..hooks import internals
from ..hooks.recursion import deeper_recursion
from ..model.deepspeed_zero import HOOKS, fetches, whole_shape, without_fetching
from ..model.model_run import ModelRun
from ..model.tensors import rebuilt
from ..model.wrappers import is_parallel
from .known_values import remember

ORDERS = ("sorted_indices", "unsorted_indices")
FEW = 16
"""Elements up to which a parameter's values may be asked for: a learned scale, not a matrix."""
OWN_HOOKS = ("transformers.utils.output_capturing", "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm")
"""Hooks with which a model works, and which keep nothing of their own: where their functions are defined."""
COPYING = 8
"""How many more frames a copy takes for each level of a model than a call does."""


def refusal(model: nn.Module) -> str | None:
    """Why a model cannot have a twin that behaves like it; None if it can."""
    if any(getattr(torch.nn.modules.module, f"_global{name}", None) for name in HOOKS):
        return "global module hooks are registered"
    for name, parameter in model.named_parameters():
        if internals.is_wrapper_subclass(parameter):
            return f"the parameter {name} is a {type(parameter).__name__}"
        if torch.nn.parameter.is_lazy(parameter):
            return f"the parameter {name} has no shape before the first forward"
    for name, module in model.named_modules():
        where = f"{name or 'the model'} ({type(module).__name__})"
        hooks = [hook for kind in HOOKS for hook in getattr(module, kind, {}).values()]
        if any(hook.__module__ not in OWN_HOOKS and not fetches(hook) for hook in hooks):
            return f"{where} has hooks, and a hook must never see a meta tensor"
        if is_parallel(module):
            return f"{where} is a parallel wrapper"
        if isinstance(module, torch.jit.ScriptModule):
            return f"{where} is a TorchScript module"
        if "forward" in vars(module):
            return f"{where} has its forward replaced"
    return None


class NoTwinError(Exception):
    """The model, or what it is called with, cannot have a twin; the message says why."""

    def __init__(self, why: str, tape: Tape | None = None) -> None:
        super().__init__(why)
        self.tape = tape
        """What was counted before the twin raised."""


def make_twin(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> tuple[nn.Module, Any]:
    """The model on meta, and its optimizer if it has one; no data is copied."""
    why = refusal(model)
    if why is not None:
        raise NoTwinError(why)
    memo: dict[int, Any] = {}
    states = [] if optimizer is None else [value for state in optimizer.state.values() for value in state.values()]
    for tensor in [*model.parameters(), *model.buffers(), *plain_tensors(model), *states]:
        if isinstance(tensor, torch.Tensor):
            memo.setdefault(id(tensor), _on_meta(tensor))
    try:
        with deeper_recursion(COPYING):
            return without_fetching(copy.deepcopy(model, memo)), copy.deepcopy(optimizer, memo)
    except Exception as problem:
        raise NoTwinError(f"it cannot be copied ({type(problem).__name__}: {problem})") from problem


def twin_of(run: ModelRun) -> ModelRun:
    """The same run on meta: parameters, buffers and inputs without data; small ones keep their known values."""
    model, optimizer = make_twin(run.model, run.optimizer)
    args, kwargs = on_meta((run.args, dict(run.kwargs or {})))
    return replace(run, model=model, args=args, kwargs=kwargs, optimizer=optimizer)


def plain_tensors(model: nn.Module) -> list[torch.Tensor]:
    """Tensors that modules keep as ordinary attributes."""
    return [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without data that remembers its values for code that asks; parameters do so only if they are small."""
    if internals.is_wrapper_subclass(tensor) or tensor.layout is not torch.strided or tensor.is_quantized:
        raise NoTwinError(f"a {type(tensor).__name__} with layout {tensor.layout} has no twin")
    shape = whole_shape(tensor)
    if shape == tensor.shape:
        twin = torch.empty_strided(shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    else:
        twin = torch.empty(shape, dtype=tensor.dtype, device="meta")
    internals.with_signs(twin, internals.signs(tensor))
    if isinstance(tensor, nn.Parameter):
        if tensor.dim() < 2 and tensor.numel() <= FEW and shape == tensor.shape:
            remember(twin, tensor)
        return nn.Parameter(twin, requires_grad=tensor.requires_grad)
    return remember(twin, tensor).requires_grad_(tensor.requires_grad)


def _part_on_meta(tensor: torch.Tensor, wholes: dict[int, torch.Tensor]) -> torch.Tensor:
    """The twin of a tensor that is a part of a larger one."""
    key = internals.storage_key(tensor)
    if key not in wholes:
        elements = internals.storage_bytes(tensor) // tensor.itemsize
        whole = internals.as_stored(tensor).as_strided((elements,), (1,), 0)
        wholes[key] = remember(torch.empty_like(whole, device="meta"), whole, part_of=tensor)
    part = wholes[key].view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return internals.with_signs(part, internals.signs(tensor)).requires_grad_(tensor.requires_grad)


def _is_torchs(value: Any) -> bool:
    """Whether something is a function of torch's own; a user's would be called with tensors that have no data."""
    if not isinstance(value, FunctionType | BuiltinFunctionType):
        return False
    owner = value.__module__ or getattr(getattr(value, "__self__", None), "__module__", None) or ""
    return owner.split(".")[0] == "torch" or getattr(torch, value.__name__, None) is value


NUMBERS_AND_TEXT = (type(None), bool, int, float, complex, str, bytes)
PLAIN = (*NUMBERS_AND_TEXT, type, torch.dtype, torch.device, torch.Size, Enum, range, slice)
"""What a twin may share with the model: it cannot be changed."""


def on_meta(value: Any) -> Any:
    """Inputs on meta, in new containers like the user's; an object that a forward of the twin could change is refused."""
    twins: dict[int, torch.Tensor] = {}
    """An input that is given twice takes its memory once."""
    wholes: dict[int, torch.Tensor] = {}
    """Of inputs that are parts of a larger tensor, the whole: it is alive too, and they may share it."""

    def on_meta_too(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in twins:
                twin = _on_meta(leaf)
                is_part = internals.storage_bytes(twin) < internals.storage_bytes(leaf)
                twins[id(leaf)] = _part_on_meta(leaf, wholes) if is_part else twin
            return twins[id(leaf)]
        if isinstance(leaf, PackedSequence):  # torch wants its batch sizes as numbers on the CPU
            return leaf._replace(**{name: on_meta_too(getattr(leaf, name)) for name in ("data", *ORDERS)})
        if isinstance(leaf, PLAIN) or _is_torchs(leaf):
            return leaf
        raise NoTwinError(f"an input is a {type(leaf).__name__}, which the twin would share with the model")

    return rebuilt(value, on_meta_too, anew=True, whole=(PackedSequence, torch.Size))
