"""The whole model from one rank's shard of it: rebuilt without data, and without asking the other ranks."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from ..capture.model.deepspeed_zero import whole_shape
from ..capture.model.tensors import without_data

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
LIBRARIES = ("torch.distributed", "torch.nn.parallel", "deepspeed", "transformers.distributed")
"""Packages whose hooks and forwards move shards around, and compute nothing of the model's."""
INSIDE = {
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
    "DeepSpeedEngine": "module",
}
"""Wrappers by class, and where each holds the model."""
MARK = "FSDPModule"
"""The class that fully_shard puts in front of a module's own."""
STATE = ("__composable_api", "_fsdp_state")
"""Attributes in which sharding libraries keep their books."""


def unsharded(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> tuple[nn.Module, torch.optim.Optimizer | None]:
    """A copy of the model as it was before it was sharded or wrapped, and of its optimizer; nothing in it has data.

    An optimizer that holds anything else than the model's parameters, such as flat ones, has no copy.
    """
    built = _Rebuilding(model)
    return built.model, None if optimizer is None else built.optimizer(optimizer)


def whole_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """An input that is spread over ranks as one tensor without data; any other input itself."""
    spread = hasattr(tensor, "device_mesh") and hasattr(tensor, "to_local")
    return without_data(tensor) if spread else tensor


def inside(module: nn.Module) -> nn.Module:
    """The module that a parallel wrapper holds, or the module itself."""
    while True:
        name = next((INSIDE[kind.__name__] for kind in type(module).__mro__ if kind.__name__ in INSIDE), None)
        inner = module._modules.get(name) if name is not None else None
        if inner is None:
            return module
        module = inner


class _Rebuilding:
    """One copy in the making."""

    def __init__(self, model: nn.Module) -> None:
        self._memo: dict[int, Any] = {}
        self._given: dict[int, dict[str, nn.Parameter]] = {}
        for module in model.modules():
            self._flat_parts(module)
        for module in model.modules():
            self._tensors(module)
            inner = inside(module)
            if inner is module:
                self._memo[id(module)] = _plain_class(module).__new__(_plain_class(module))
        for module in model.modules():
            if inside(module) is not module:
                self._memo[id(module)] = self._memo[id(inside(module))]
        for module in model.modules():
            if inside(module) is module:
                self._fill(module)
        self.model: nn.Module = self._memo[id(model)]

    def _flat_parts(self, module: nn.Module) -> None:
        """The older FSDP keeps the parameters of many modules in one flat tensor, which knows their shapes."""
        handle = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        if flat is None:
            return
        for info, shape in zip(flat._param_infos, flat._shapes, strict=True):
            self._given.setdefault(id(info.module), {})[info.param_name] = _parameter(shape, flat)
        for shared in getattr(flat, "_shared_param_infos", ()):
            source = self._given[id(shared.prim_module)][shared.prim_param_name]
            self._given.setdefault(id(shared.module), {})[shared.param_name] = source

    def _tensors(self, module: nn.Module) -> None:
        for parameter in module._parameters.values():
            if parameter is not None and id(parameter) not in self._memo:
                self._memo[id(parameter)] = _parameter(whole_shape(parameter), parameter)
        for tensor in (*module._buffers.values(), *vars(module).values()):
            if isinstance(tensor, torch.Tensor):
                self._memo.setdefault(id(tensor), whole_tensor(tensor))

    def _fill(self, module: nn.Module) -> None:
        new = self._memo[id(module)]
        given = self._given.get(id(module), {})
        held: dict[str, Any] = {}
        for name, value in vars(module).items():
            if name.startswith(STATE) or name in given or (name == "forward" and _moves_shards(value)):
                continue
            if name == "_modules":
                held[name] = {key: self._memo.get(id(child)) for key, child in value.items()}
            elif name in ("_parameters", "_buffers"):
                kept = {key: tensor for key, tensor in value.items() if key not in given and not _is_flat(tensor)}
                held[name] = {key: self._memo.get(id(tensor)) for key, tensor in kept.items()}
            elif name in HOOKS:
                held[name] = type(value)((key, hook) for key, hook in value.items() if not _moves_shards(hook))
            else:
                held[name] = self._copied(value)
        held["_parameters"] = held["_parameters"] | given
        new.__dict__.update(held)

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer | None:
        """The optimizer of the copy."""
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if any(id(parameter) not in self._memo for parameter in held) or type(optimizer).__module__.startswith(
            LIBRARIES
        ):
            return None
        memo = dict(self._memo)
        for state in optimizer.state.values():
            memo |= {id(value): whole_tensor(value) for value in state.values() if isinstance(value, torch.Tensor)}
        with suppress(Exception):
            return copy.deepcopy(optimizer, memo)
        return None

    def _copied(self, value: Any) -> Any:
        with suppress(Exception):  # a process group or a lock cannot be copied, and may be shared
            return copy.deepcopy(value, dict(self._memo))
        return value


def _parameter(shape: Any, like: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(torch.empty(tuple(shape), dtype=like.dtype, device="meta"), requires_grad=like.requires_grad)


def _plain_class(module: nn.Module) -> type[nn.Module]:
    """The class that a module had before fully_shard."""
    kinds = type(module).__mro__
    if not any(kind.__name__ == MARK for kind in kinds):
        return type(module)
    return next(kind for kind in kinds[1:] if kind.__name__ != MARK and issubclass(kind, nn.Module))


def _is_flat(tensor: Any) -> bool:
    """Whether a parameter is the older FSDP's: several in one."""
    return hasattr(tensor, "_param_infos")


def _moves_shards(hook: Any) -> bool:
    function = getattr(hook, "func", hook)
    return str(getattr(function, "__module__", "")).startswith(LIBRARIES)
