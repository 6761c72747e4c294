"""plan(): the model counted block by block on meta, every mesh priced, the fastest that fits first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..analysis.plan.job_case import OPTIMIZERS, PRECISIONS, Case, check_choice
from ..analysis.plan.machine import Machine, machine_of
from ..analysis.plan.mesh_search import batch_splits, check_shape, meshes
from ..analysis.plan.pricing import best_split, ranked
from ..distributed.job_options import CHECKPOINTS, is_part, job_options
from ..distributed.mesh_axes import check_mesh, written
from ..errors import InputError, whole_number
from ..results.plan import Plan, PlanOption
from .block_counts import BlockCounts
from .serving_plan import plan_serving

Said = Callable[[str], object]


def plan(
    target: str,
    *,
    gpus: int,
    on: str,
    batch: int | None = None,
    seq: int | None = None,
    input_shape: Sequence[int] | Sequence[str] | str | None = None,
    mesh: Mapping[str, int] | None = None,
    micro_batch: int | None = None,
    accumulate: int | None = None,
    checkpoint: str | None = None,
    precision: str = "bf16",
    optimizer: str = "adamw",
    compile: bool = False,
    fsdp: Mapping[str, Any] | None = None,
    gpus_per_node: int = 8,
    between_nodes: float | None = None,
    serve: bool = False,
    prompt: int | None = None,
    new: int | None = None,
    assume: Mapping[str, float] | None = None,
    progress: Said | None = None,
) -> Plan:
    """Ways to train a model, or to `serve` it, on so many GPUs of a kind, ranked by predicted speed, those that do not fit last.

    What is given is fixed, what is None is searched. `target` is a target as on the command line, with inputs of `seq` tokens or
    of `input_shape`, to be trained with `optimizer` on `gpus` devices of the kind `on`, `gpus_per_node` of them in a machine.
    `batch` is samples a step over all GPUs: `micro_batch` x `accumulate` x dp x fsdp. `mesh` has the axes dp, fsdp, tp, pp, cp, ep.
    `compile` takes the model for compiled: pointwise ops are fused. `progress` is called with what is being done. `checkpoint` is "none",
    "full" or "selective"; `precision` "bf16" (float32 weights, gradients and state, bfloat16 compute), "pure-bf16" or "fp32".
    `fsdp` are FSDP's switches, `between_nodes` the Gbit/s of each GPU's network card, `assume` numbers that a prediction takes
    for granted, by the names that `option.assumptions` shows. To `serve`, `prompt` and `new` are the tokens of a sequence, and
    `batch` the sequences at once. Every time in the result is predicted.
    """
    if not serve and (prompt is not None or new is not None):
        raise InputError("prompt and new are for serving; add serve=True (--serve).")
    numbers = {"gpus": gpus, "batch": batch, "seq": seq, "micro_batch": micro_batch, "accumulate": accumulate}
    for name, value in (numbers | {"gpus_per_node": gpus_per_node}).items():
        if value is not None:
            whole_number(name, value, 1)
    check_choice("The precision", precision, PRECISIONS)
    check_choice("The optimizer", optimizer, OPTIMIZERS)
    if checkpoint is not None:
        check_choice("checkpoint", checkpoint, CHECKPOINTS)
    _check_switches(fsdp, mesh)
    machine = machine_of(on, gpus=gpus, gpus_per_node=gpus_per_node, between_nodes=between_nodes, assume=assume)
    given = check_mesh(mesh) if mesh is not None else None
    if serve:
        return plan_serving(
            target,
            gpus=gpus,
            on=on,
            machine=machine,
            mesh=given,
            batch=batch,
            prompt=prompt,
            new=new,
            progress=progress,
        )
    dtype = "float32" if precision == "fp32" else "bfloat16"
    counts = BlockCounts(target, seq=seq, input_shape=input_shape, dtype=dtype, progress=progress)
    if given is not None:
        check_shape(given, gpus, counts.shape)
    case = Case(given or {}, 1, 1, "none", precision, optimizer, compile, dict(fsdp or {}))
    checkpoints = [checkpoint] if checkpoint else list(CHECKPOINTS)
    options = _options(case, counts, machine, (batch, micro_batch, accumulate), checkpoints, gpus)
    return Plan(target, machine.ceilings.name, gpus, ranked(options), _settings(case, counts.seq, batch))


def _settings(case: Case, seq: int | None, batch: int | None) -> dict[str, str]:
    """What holds for every option, in words."""
    found = {
        "sequence": f"{seq:,} tokens" if seq else "",
        "batch": f"{batch:,}" if batch else "",
        "precision": case.precision,
        "optimizer": case.optimizer,
        "compile": "yes" if case.compile else "no",
    }
    return {name: value for name, value in found.items() if value}


def _options(
    case: Case,
    counts: BlockCounts,
    machine: Machine,
    sizes: tuple[int | None, int | None, int | None],
    checkpoints: Sequence[str],
    gpus: int,
) -> list[PlanOption]:
    batch, micro_batch, accumulate = sizes
    tried = [dict(case.mesh)] if case.mesh else list(meshes(gpus, machine.gpus_per_node, counts.shape))
    if parts := case.parts_kept:
        tried = [mesh for mesh in tried if mesh.get("fsdp", 1) % parts == 0 and mesh["fsdp"] > parts]
        if not tried:
            raise InputError(f"reshard={parts} is a part of an fsdp axis, and no mesh of {gpus} GPUs has a larger one.")
    found = []
    for mesh in tried:
        one = replace(case, mesh=mesh)
        splits = batch_splits(batch, one.replicas, one.axis("pp"), micro_batch, accumulate)
        splits = [split for split in splits if split[0] % one.axis("ep") == 0]
        for checkpoint in checkpoints if splits else ():
            option = best_split(replace(one, checkpoint=checkpoint), splits, counts.workload, machine)
            if option is not None:
                found.append(option)
    if not found:
        raise _no_split(tried, sizes)
    return found


def _no_split(tried: Sequence[Mapping[str, int]], sizes: tuple[int | None, int | None, int | None]) -> InputError:
    batch, micro_batch, accumulate = sizes
    given = [f"{name} {value}" for name, value in (("micro-batch", micro_batch), ("accumulation", accumulate)) if value]
    where = f"the mesh {written(tried[0])}" if len(tried) == 1 else "any mesh"
    ep = min(mesh.get("ep", 1) for mesh in tried)
    if micro_batch and micro_batch % ep:
        return InputError(f"A micro-batch of {micro_batch} cannot be shared by ep={ep} ranks; take a multiple of {ep}.")
    replicas = min(mesh.get("dp", 1) * mesh.get("fsdp", 1) * mesh.get("ep", 1) for mesh in tried)
    least = replicas * ((micro_batch or ep) // ep) * (accumulate or 1)
    return InputError(
        f"A batch of {batch} cannot be divided on {where}{' with ' + ' and '.join(given) if given else ''}: "
        f"{replicas} ranks hold a sample of their own, so take a multiple of {least}."
    )


def _check_switches(fsdp: Mapping[str, Any] | None, mesh: Mapping[str, int] | None) -> None:
    """Refuse switches of FSDP that have no meaning, or none on the mesh that is given."""
    part: Any = fsdp.get("reshard") if isinstance(fsdp, Mapping) else None
    ranks = mesh.get("fsdp", 1) if isinstance(mesh, Mapping) else 1
    job_options({"fsdp": ranks if ranks > 1 else 2 * part if is_part(part) else 2}, fsdp=fsdp)
