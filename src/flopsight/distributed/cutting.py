"""A model divided over a device mesh, as a training script divides it: tensor parallel, then FSDP2 or DDP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..errors import InputError
from . import fused_layers
from .dryrun import Answering
from .job_options import DEFAULTS, JobOptions

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

COLUMNS, ROWS = "colwise", "rowwise"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
PLAN = 'model._tp_plan = {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}'


def cut(
    model: nn.Module, mesh: DeviceMesh, options: JobOptions = DEFAULTS, *, blocks: Mapping[str, nn.Module], train: bool
) -> nn.Module:
    """The model as this rank of the mesh holds it after its first step; the model itself is changed.

    Products inside the blocks are divided over `tp`; every block, then the rest, is sharded over `fsdp`, with replicas
    over `dp`; without `fsdp`, DistributedDataParallel averages gradients over `dp`.
    """
    names = mesh.mesh_dim_names or ()
    if "tp" in names and (blocks or "pp" not in names):  # a stage may hold the embedding or the head alone
        _divide_products(model, mesh["tp"], blocks)
    if "fsdp" in names:
        _shard(model, mesh["dp", "fsdp"] if "dp" in names else mesh["fsdp"], options, list(blocks.values()))
        _settle(model, train=train)
        return model
    if "dp" in names and mesh["dp"].size() > 1:
        return _replicated(model, mesh["dp"])
    return model


def _shard(model: nn.Module, mesh: DeviceMesh, options: JobOptions, blocks: list[nn.Module]) -> None:
    """Shard so many blocks at a time as one unit, then what is left in the root.

    Without data there is nothing to move to the host: whoever counts leaves offloaded shards out of the device's memory.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    precision = MixedPrecisionPolicy(
        param_dtype=DTYPES[options.precision] if options.precision else None,
        reduce_dtype=DTYPES[options.reduce] if options.reduce else None,
    )
    how: dict[str, Any] = {"mesh": mesh, "reshard_after_forward": options.reshard, "mp_policy": precision}
    for first in range(0, len(blocks), options.wrap):
        unit = blocks[first : first + options.wrap]
        fully_shard(unit if len(unit) > 1 else unit[0], **how)
    fully_shard(model, **how)


def without_wrappers(name: str) -> str:
    """The name that a parameter had before `cut`."""
    return name.removeprefix("module.").replace("_checkpoint_wrapped_module.", "")


def _settle(model: Any, *, train: bool) -> None:
    """Do what FSDP2 does in its first forward: it pads shards, and in inference the root's weights stay gathered."""
    model._get_fsdp_state()._lazy_init()
    if not train:
        model.unshard()


def _divide_products(model: nn.Module, mesh: DeviceMesh, blocks: Mapping[str, nn.Module]) -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    styles = {COLUMNS: ColwiseParallel, ROWS: RowwiseParallel}
    check_heads(model, mesh.size())
    layers = list(_layers(model, blocks, mesh.size()))
    for path, module, style in layers:
        if style not in styles or not isinstance(module, nn.Linear):
            raise InputError(
                f"The tensor-parallel plan of this model divides {path} ({type(module).__name__}) as {style!r}, which a dry "
                f"run cannot build yet; it can divide nn.Linear layers as {COLUMNS!r} and {ROWS!r}."
            )
        size = module.out_features if style == COLUMNS else module.in_features
        if size % mesh.size():
            raise InputError(f"tp={mesh.size()} does not divide {path}: {size} is not a multiple of {mesh.size()}.")
        parallelize_module(module, mesh, styles[style]())
    if not layers:
        raise InputError(
            f"tp={mesh.size()} needs a plan that says which layers are divided, and this model brings none. "
            f"Set one: {PLAN}."
        )


def _layers(model: nn.Module, blocks: Mapping[str, nn.Module], ways: int) -> Iterator[tuple[str, nn.Module, str]]:
    """The layers of the blocks that are divided, and how; embedding, norms and head stay whole."""
    for path, block in blocks.items():
        inner = getattr(block, "_checkpoint_wrapped_module", block)
        plan = fused_layers.plan_of(inner)
        if plan:
            fused_layers.prepare(inner, ways)
        yield from ((f"{path}.{name}", inner.get_submodule(name), style) for name, style in plan.items())
    yield from (layer for layer in planned(model) if layer[0].startswith(tuple(blocks)))


def check_heads(model: nn.Module, ways: int) -> None:
    """Refuse a number of ranks that does not divide a transformer's heads."""
    config = getattr(getattr(model, "config", None), "get_text_config", lambda: None)()
    for field, what in (("num_attention_heads", "attention heads"), ("num_key_value_heads", "key-value heads")):
        heads = getattr(config, field, None)
        if isinstance(heads, int) and heads % ways:
            fits = ", ".join(str(n) for n in range(2, heads + 1) if heads % n == 0) or "none"
            raise InputError(f"tp={ways} does not divide the {heads} {what} of this model; these do: {fits}.")


def planned(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Every module that the model's own plan names, with its path and how it is divided.

    transformers writes plans as `{"layers.*.mlp.up_proj": "colwise"}` in `_tp_plan`; any model may.
    """
    plan: Any = getattr(model, "_tp_plan", None)
    if not isinstance(plan, Mapping):
        return
    patterns = [(re.compile(re.escape(name).replace(r"\*", "[^.]+")), style) for name, style in plan.items()]
    for path, module in model.named_modules():
        for pattern, style in patterns:
            if pattern.fullmatch(without_wrappers(path)):
                yield path, module, style
                break


def _replicated(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    answering: Any = Answering(mesh.get_group())
    wrapped = DistributedDataParallel(model, process_group=answering, init_sync=False)
    wrapped.process_group = mesh.get_group()  # whose ranks torch knows; the reducer has the group that answers,
    wrapped.answering = answering  # and does not keep its Python side alive
    return wrapped
