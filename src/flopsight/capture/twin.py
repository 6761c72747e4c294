"""A meta twin: the same model without data, so that counting it runs no kernel and touches nothing of the user's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import nn

from . import internals
from .inputs import Run
from .shadow import remember

PARALLEL = ("torch.nn.parallel", "torch.distributed", "deepspeed", "accelerate", "megatron", "fairscale")
HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)  # fmt: skip
RUN_HOOKS = HOOKS[:4]


def refusal(model: nn.Module) -> str | None:
    """Why a model cannot have a twin that behaves like it; None where nothing speaks against one."""
    if any(getattr(torch.nn.modules.module, f"_global{name}", None) for name in RUN_HOOKS):
        return "global module hooks are registered"
    for name, module in model.named_modules():
        where = f"{name or 'the model'} ({type(module).__name__})"
        if any(getattr(module, hooks, None) for hooks in RUN_HOOKS):
            return f"{where} has hooks, and a hook must never see a meta tensor"
        if type(module).__module__.startswith(PARALLEL):
            return f"{where} is a parallel wrapper"
        if isinstance(module, torch.jit.ScriptModule):
            return f"{where} is a TorchScript module"
        if "forward" in vars(module):
            return f"{where} has its forward replaced"
    for name, parameter in model.named_parameters():
        if internals.is_wrapper_subclass(parameter) or hasattr(parameter, "ds_id"):
            return f"the parameter {name} is a {type(parameter).__name__}"
        if torch.nn.parameter.is_lazy(parameter):
            return f"the parameter {name} has no shape before the first forward"
    return None


def twin_of(run: Run) -> Run:
    """The same run on meta: parameters, buffers and inputs without data, small known values kept in their shadow."""
    memo: dict[int, Any] = {}
    for tensor in [*run.model.parameters(), *run.model.buffers(), *_plain_tensors(run.model)]:
        memo.setdefault(id(tensor), _on_meta(tensor))
    optimizer = run.optimizer
    if optimizer is not None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    memo.setdefault(id(value), _on_meta(value))
    keep_alive = list(memo.values())
    model = copy.deepcopy(run.model, memo)
    twin = replace(
        run,
        model=model,
        args=_inputs(run.args),
        kwargs=_inputs(dict(run.kwargs or {})),
        optimizer=copy.deepcopy(optimizer, memo) if optimizer is not None else None,
    )
    del keep_alive
    return twin


def _plain_tensors(model: nn.Module) -> list[torch.Tensor]:
    """Tensors that modules keep as ordinary attributes."""
    return [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without data; a small one keeps its values in a shadow, for code that asks for them."""
    twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(twin, requires_grad=tensor.requires_grad)
    twin.requires_grad_(tensor.requires_grad)
    return twin if tensor.is_meta else remember(twin, tensor)


def _inputs(value: Any) -> Any:
    """Inputs on meta, in containers like the user's."""
    if isinstance(value, torch.Tensor):
        return _on_meta(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_inputs, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_inputs, value))
    if isinstance(value, Mapping):
        found = {key: _inputs(item) for key, item in value.items()}
        return found if type(value) is dict else _rebuilt(value, found)
    if is_dataclass(value) and not isinstance(value, type):
        twin = copy.copy(value)
        for f in fields(value):
            object.__setattr__(twin, f.name, _inputs(getattr(value, f.name)))
        return twin
    return value


def _rebuilt(mapping: Mapping[Any, Any], found: dict[Any, Any]) -> Any:
    twin = copy.copy(mapping)
    twin.update(found)  # type: ignore[attr-defined]
    return twin


Maker = Callable[[Run], Run]
