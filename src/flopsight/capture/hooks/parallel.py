"""Every private part of torch.distributed that capture uses, in one place; each is looked up only where it is imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...results.comm import group_key
from ...results.records import BACKWARD, OPTIMIZER

MESH = "mesh_"
"""How torch begins the description of a group that it made for a dimension of a device mesh."""
UNNAMED = "mesh_dim_"


@dataclass(frozen=True)
class OwnWork:
    """A function of a sharding library that works for one module, whichever module happens to run."""

    home: Any
    name: str
    module_of: Callable[[tuple[Any, ...]], nn.Module | None]
    """The module, from the function's arguments."""
    gathers: bool = False
    """Whether what it allocates is for gathered weights."""
    gathered: Callable[[tuple[Any, ...]], list[torch.Tensor]] | None = None
    """The weights that are whole when it ends, from its arguments."""
    phase: str | None = None
    """The phase of its work, also if a pipeline calls it after autograd has ended."""


def own_work() -> Iterator[OwnWork]:
    """The functions of FSDP, new and old, that gather weights and scatter gradients."""
    group = _module("torch.distributed.fsdp._fully_shard._fsdp_param_group")
    if group is not None:
        kind = group.FSDPParamGroup
        yield OwnWork(kind, "reshard", _first_module)
        for name in ("post_backward", "finalize_backward"):
            yield OwnWork(kind, name, _first_module, phase=BACKWARD)
        yield OwnWork(kind, "unshard", _first_module, gathers=True)
        yield OwnWork(kind, "wait_for_unshard", _first_module, gathers=True, gathered=lambda args: _unsharded(args[0]))
    older = _module("torch.distributed.fsdp._runtime_utils")
    if older is not None:
        yield OwnWork(older, "_unshard", _wrapped_by_handle, gathers=True, gathered=lambda args: _flat(args[1]))
        yield OwnWork(older, "_reduce_grad", _wrapped_by_handle)


def _first_module(args: tuple[Any, ...]) -> nn.Module | None:
    modules: tuple[nn.Module, ...] = args[0].modules
    return modules[0] if modules else None


def _unsharded(group: Any) -> list[torch.Tensor]:
    found = []
    for parameter in group.fsdp_params:
        found += [tensor for tensor in getattr(parameter, "all_gather_outputs", ()) if isinstance(tensor, torch.Tensor)]
        whole = getattr(parameter, "_unsharded_param", None)
        if isinstance(whole, torch.Tensor):
            found.append(whole)
    return found


def _wrapped_by_handle(args: tuple[Any, ...]) -> nn.Module | None:
    module: nn.Module | None = getattr(args[1], "_fully_sharded_module", None)
    return module


def _flat(handle: Any) -> list[torch.Tensor]:
    whole = getattr(getattr(handle, "flat_param", None), "_full_param_padded", None)
    return [whole] if isinstance(whole, torch.Tensor) else []


SET_UPS = {
    "torch.distributed.pipelining.stage": (
        "_prepare_forward_infra",
        "_forward_metadata_inference",
        "_backward_metadata_inference",
    ),
    "torch.distributed._composable.replicate": ("lazy_init",),
    "torch.distributed.pipelining.schedules": ("_warmup_p2p", "_initialize_stage", "_initialize_stages"),
}


def set_ups() -> Iterator[tuple[Any, str]]:
    """Functions that run once to work shapes out or to agree on an order: class and name."""
    for home, names in SET_UPS.items():
        for kind in vars(_module(home)).values() if _module(home) is not None else ():
            if isinstance(kind, type) and kind.__module__ == home:
                yield from ((kind, name) for name in names if name in vars(kind))
    reducer = getattr(_module("torch.distributed"), "Reducer", None)
    if reducer is not None and hasattr(reducer, "_rebuild_buckets"):
        yield reducer, "_rebuild_buckets"


def engine_phases() -> Iterator[tuple[Any, str, str]]:
    """Methods of DeepSpeed's engine with work of their own outside autograd: class, name and phase of that work."""
    engine = getattr(_module("deepspeed.runtime.engine"), "DeepSpeedEngine", None)
    if engine is not None:
        yield engine, "backward", BACKWARD
        yield engine, "step", OPTIMIZER


def work_kind() -> Any:
    """The class of a collective on its way, if it is imported."""
    return getattr(_module("torch.distributed.distributed_c10d"), "Work", None)


def stage_kind() -> Any:
    """The class of pipeline stages, if it is imported."""
    return getattr(_module("torch.distributed.pipelining.stage"), "_PipelineStageBase", None)


STAGE_RUNS = "forward_one_chunk"
"""The method of a stage that runs one microbatch."""
STAGE_EXCHANGES = ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops")
"""The methods of a stage that list what it sends and receives."""


def is_running() -> bool:
    """Whether there is a process group."""
    distributed = _module("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def has_other_ranks() -> bool:
    """Whether there is a process group with more than this rank in it."""
    return is_running() and _module("torch.distributed").get_world_size() > 1


def group_facts(args: Mapping[str, Any]) -> dict[str, Any]:
    """The ranks of a collective, how many they are, this rank's place among them, the mesh dimension that it is."""
    group = _group(args)
    if group is None:
        return {}
    found = {
        "group": group_key(group, _module("torch.distributed").get_process_group_ranks),
        "group_size": group.size(),
        "group_rank": group.rank(),
    }
    described = str(getattr(group, "group_desc", ""))
    if described.startswith(MESH) and not described.startswith(UNNAMED):
        found["dim"] = described.removeprefix(MESH)
    return found


def _group(args: Mapping[str, Any]) -> Any:
    groups: Any = _module("torch.distributed.distributed_c10d")
    name = args.get("group_name")
    if isinstance(name, str):
        return groups._resolve_process_group(name)
    boxed = args.get("process_group")
    return None if boxed is None else unboxed(boxed)


def unboxed(boxed: Any) -> Any:
    """The process group that an op was given."""
    return _module("torch.distributed.distributed_c10d").ProcessGroup.unbox(boxed)


def averages_gradients(module: nn.Module) -> bool:
    """Whether a module is torch's DistributedDataParallel, which averages gradients in buckets."""
    kind = getattr(_module("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
    return kind is not None and isinstance(module, kind)


def bucket_bytes(wrapper: Any) -> int:
    """Bytes of the buckets of a DistributedDataParallel, which it has from the moment it is made."""
    known = wrapper._get_ddp_logging_data()
    sizes = known.get("rebuilt_bucket_sizes") or known.get("bucket_sizes", "")
    return sum(int(size) for size in re.findall(r"\d+", sizes))


def divides_attention() -> bool:
    """Whether context parallel is on: DTensor then has handlers for the attention kernels of a GPU."""
    dtensor = getattr(_module("torch.distributed.tensor"), "DTensor", None)
    handled = getattr(getattr(dtensor, "_op_dispatcher", None), "_custom_op_handlers", {})
    return torch.ops.aten._scaled_dot_product_flash_attention.default in handled


def _module(name: str) -> Any:
    return sys.modules.get(name)


def shards_of_gathered(roots: Iterable[nn.Module]) -> dict[int, torch.Tensor]:
    """This rank's shards by the id of the whole weight that FSDP2 has put in their place: a root stays gathered."""
    found: dict[int, torch.Tensor] = {}
    if _module("torch.distributed.fsdp._fully_shard._fsdp_param_group") is None:
        return found
    for module in (module for root in roots for module in root.modules()):
        state = getattr(module, "_get_fsdp_state", lambda: None)()
        group = getattr(state, "_fsdp_param_group", None)
        for parameter in getattr(group, "fsdp_params", ()):
            whole = getattr(parameter, "_unsharded_param", None)
            if whole is not None:
                found[id(whole)] = parameter.sharded_param
    return found
