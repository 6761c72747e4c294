"""The model as it stands: one row a module, with its parameters, called or not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ...results.records import ModuleRow, Parameter
from ..hooks import internals, parallel
from . import deepspeed_zero
from .sites import Sites, paths
from .tensors import held_bytes, local_part

CODES = (torch.int8, torch.uint8, torch.int16, torch.int32)
"""What packed weights are kept in."""
MATRIX = 2


def module_rows(
    sites: Sites,
    state_bytes: Mapping[int, int] | None = None,
    experts: Collection[str] = (),
    unread: Collection[int] = (),
) -> tuple[ModuleRow, ...]:
    """Parents before children; several roots, or none, get a common one above them.

    `experts` are paths of modules that other ranks have others of, `unread` the ids of parameters that no op has read.
    """
    keys: dict[int, int] = {}
    shards = parallel.shards_of_gathered(sites.roots.values())
    rows = [] if "" in sites.roots else [ModuleRow("", "", "recording")]
    for prefix, root in sites.roots.items():
        for path, module in paths(root, prefix):
            rows.append(
                ModuleRow(
                    path=path,
                    name=path.rpartition(".")[2],
                    kind=type(module).__name__,
                    extra_repr=_extra_repr(module),
                    parameters=tuple(
                        _parameters(module, shards, keys, state_bytes or {}, unread, _is_below(path, experts))
                    ),
                    shapes=tuple(tuple(local_part(tensor).shape) for _, tensor in _held(module)),
                    packed_bytes=_packed_bytes(module),
                )
            )
    return tuple(rows)


def scripted_rows(sites: Sites) -> tuple[str, ...]:
    """The outermost TorchScript modules that have submodules."""
    found: list[str] = []
    for prefix, root in sites.roots.items():
        for path, module in paths(root, prefix):
            inside = any(not outer or path.startswith(f"{outer}.") for outer in found)
            if isinstance(module, torch.jit.ScriptModule) and not inside and any(True for _ in module.children()):
                found.append(path)
    return tuple(found)


def _extra_repr(module: nn.Module) -> str:
    try:
        return str(module.extra_repr())
    except Exception:  # a user's extra_repr may need what a shard or a lazy module does not have
        return ""


def _is_below(path: str, others: Collection[str]) -> bool:
    """Whether a module is one of the others, or part of one."""
    return bool(others) and any(path == other or path.startswith(f"{other}.") for other in others)


def _parameters(
    module: nn.Module,
    shards: Mapping[int, torch.Tensor],
    keys: dict[int, int],
    state_bytes: Mapping[int, int],
    unread: Collection[int],
    expert: bool,
) -> Iterable[Parameter]:
    for name, registered in _held(module):
        tensor = shards.get(id(registered), registered)
        here, whole = _elements(tensor)
        held = held_bytes(tensor) if internals.is_wrapper_subclass(tensor) else here * tensor.element_size()
        held += _beside(tensor)
        yield Parameter(
            key=keys.setdefault(id(tensor), len(keys)),
            name=name,
            numel=here,
            itemsize=tensor.element_size(),
            trainable=tensor.requires_grad,
            whole_numel=whole if whole != here else None,
            state_bytes=state_bytes.get(id(tensor), 0),
            held_bytes=held if held != here * tensor.element_size() else None,
            expert=expert,
            unread=id(registered) in unread,
        )


def _packed_bytes(module: nn.Module) -> int:
    """Bytes of a module's buffers if one of them is a matrix of codes, as GPTQ and AWQ keep their weights."""
    found = [one for one in module._buffers.values() if one is not None]
    codes = any(
        one.dim() >= MATRIX and (one.dtype in CODES or (one.element_size() == 1 and one.is_floating_point()))
        for one in found
    )
    return sum(held_bytes(one) for one in found) if codes else 0


def _beside(tensor: Any) -> int:
    """Bytes of scales that a quantised parameter holds beside its codes, as those of bitsandbytes do."""
    state = getattr(tensor, "quant_state", None)
    scales = [*(vars(state).values() if hasattr(state, "__dict__") else ()), getattr(tensor, "SCB", None)]
    return sum(held_bytes(one) for one in scales if isinstance(one, torch.Tensor))


def _held(module: nn.Module) -> list[tuple[str, Any]]:
    """The parameters that are there: a lazy one has no shape yet."""
    found = module._parameters.items()
    return [(name, one) for name, one in found if one is not None and not torch.nn.parameter.is_lazy(one)]


def _elements(tensor: Any) -> tuple[int, int]:
    """Elements here and in the whole tensor: a sharded parameter is a DTensor, or one that ZeRO has partitioned."""
    split = deepspeed_zero.elements(tensor)
    return (local_part(tensor).numel(), tensor.numel()) if split is None else split
