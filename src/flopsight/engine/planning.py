"""plan(): the model counted block by block on meta, every mesh priced, the fastest that fits first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from torch import nn

from ..analysis.plan.job_case import OPTIMIZERS, PRECISIONS, Case, choice
from ..analysis.plan.machine import Machine, assumable, machine_of
from ..analysis.plan.mesh_search import Shape, batch_splits, check_shape, meshes
from ..analysis.plan.pricing import best_split, ranked
from ..analysis.plan.serving_options import SERVING_ASSUMPTIONS
from ..capture.model.restore import kept_rng
from ..distributed.job_options import CHECKPOINTS, is_part, job_options
from ..distributed.mesh_axes import check_mesh, written
from ..distributed.recomputing import no_blocks
from ..errors import InputError, whole_number
from ..results.plan import Plan, PlanOption
from ..targets.code import imports_put_back
from .block_counts import BlockCounts
from .serving_plan import plan_serving

Said = Callable[[str], object]
MOST_GPUS = 10**6
MOST = 10**9
"""Samples and tokens, at most: the divisors of a batch are searched, and torch's sizes end at 64 bits."""


@imports_put_back()
@kept_rng()
def plan(
    target: str | nn.Module | Callable[[], nn.Module],
    *,
    gpus: int | Sequence[int],
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

    What is given is fixed, what is None is searched. `target` is a target as on the command line, a model, or a function that makes
    one; with inputs of `seq` tokens or of `input_shape`, to be trained with `optimizer` on `gpus` devices of the kind `on`, `gpus_per_node` of them in a machine; several numbers of `gpus`
    are tried one after the other and ranked by the speed of one GPU.
    `batch` is samples a step over all GPUs: `micro_batch` x `accumulate` x dp x fsdp. `mesh` has the axes dp, fsdp, tp, pp, cp, ep.
    `compile` takes the model for compiled: pointwise ops are fused. `progress` is called with what is being done. `checkpoint` is "none",
    "full" or "selective"; `precision` "bf16" (float32 weights, gradients and state, bfloat16 compute), "pure-bf16" or "fp32".
    `fsdp` are FSDP's switches, `between_nodes` the Gbit/s of each GPU's network card, `assume` numbers that a prediction takes
    for granted, by the names that `option.assumptions` shows. To `serve`, `prompt` and `new` are the tokens of a sequence,
    `batch` the sequences at once, and weights and cache are bfloat16, or float32 if `precision` is "fp32". Every time in the result is predicted.
    """
    several = _numbers_of_gpus(gpus)
    training: dict[str, Any] = {"seq": seq, "micro_batch": micro_batch, "accumulate": accumulate}
    serving = {"prompt": prompt, "new": new}
    for name, value in (training | serving | {"batch": batch, "gpus_per_node": gpus_per_node}).items():
        if value is not None:
            whole_number(name, value, 1, most=MOST)
    precision = choice("The precision", precision, PRECISIONS)
    optimizer = choice("The optimizer", optimizer, OPTIMIZERS)
    training |= {"input_shape": input_shape, "checkpoint": checkpoint, "fsdp": fsdp, "compile": compile or None}
    training |= {"optimizer": optimizer if optimizer != "adamw" else None}
    given = check_mesh(mesh) if mesh is not None else None
    _check_purpose(serving=serving, training=training, assume=assume or {}, serve=serve)
    checkpoint = choice("checkpoint", checkpoint, CHECKPOINTS) if checkpoint is not None else None
    _check_switches(fsdp, given)
    dtype = "float32" if precision == "fp32" else "bfloat16"
    machine = machine_of(
        on, gpus=several[-1], gpus_per_node=gpus_per_node, between_nodes=between_nodes, assume=assume, dtype=dtype
    )
    if given is not None and len(several) > 1:
        raise InputError(f"The mesh {written(given)} has one number of ranks: give gpus={prod(given.values())} alone.")
    if serve:
        return plan_serving(
            target, gpus=several, on=on, machine=machine, dtype=dtype, mesh=given, batch=batch, prompt=prompt, new=new,
            progress=progress,
        )  # fmt: skip
    counts = BlockCounts(target, seq=seq, input_shape=input_shape, dtype=dtype, compile=compile, progress=progress)
    if given is not None:
        check_shape(given, several[0], counts.shape)
    case = Case(given or {}, 1, 1, "none", precision, optimizer, compile, dict(fsdp or {}))
    checkpoints = _checkpoints(checkpoint, counts.shape)
    options = _options(case, counts, machine, (batch, micro_batch, accumulate), checkpoints, several)
    settings = _settings(case, counts.seq, batch)
    if without := [f"{number:,}" for number in several if number not in {option.gpus for option in options}]:
        settings["left out"] = f"{', '.join(without)} GPUs, which cannot share the batch"
    return Plan(counts.text, machine.ceilings.name, several[-1], ranked(options), settings)


def _checkpoints(given: str | None, shape: Shape) -> Sequence[str]:
    """The ways of checkpointing to try: a model without repeated blocks has one."""
    if given not in (None, "none") and not shape.depth:
        raise no_blocks(given)
    return [given] if given else list(CHECKPOINTS) if shape.depth else ["none"]


def _check_purpose(
    *, serving: Mapping[str, Any], training: Mapping[str, Any], assume: Mapping[str, Any], serve: bool
) -> None:
    """Refuse what would have no effect: sizes of a generation in training, and the other way round."""
    if not isinstance(assume, Mapping):
        raise InputError(f'assume is a dict of numbers by name, like {{"attention": 0.5}}, not {assume!r}.')
    for name, value in (("serve", serve), ("compile", training["compile"] or False)):
        if not isinstance(value, bool):
            raise InputError(f"{name} is True or False, not {value!r}.")
    if not serve and any(value is not None for value in serving.values()):
        raise InputError("prompt and new are for serving; add serve=True (--serve).")
    unused = [name for name, value in training.items() if value is not None]
    if serve and unused:
        raise InputError(
            f"{' and '.join(unused)} {'are' if len(unused) > 1 else 'is'} for training; to serve, give prompt, new and batch."
        )
    idle = [name for name in assume if serve and name in assumable() and name not in SERVING_ASSUMPTIONS]
    if idle:
        raise InputError(
            f"A plan for serving does not take {' and '.join(idle)} for granted, only {', '.join(SERVING_ASSUMPTIONS)}."
        )


def _numbers_of_gpus(gpus: int | Sequence[int]) -> tuple[int, ...]:
    """The numbers of GPUs to try, the smallest first."""
    several = tuple(gpus) if isinstance(gpus, Sequence) and not isinstance(gpus, str) else (gpus,)
    if not several:
        raise InputError("gpus is a number of GPUs, or several of them, like (1, 2, 4, 8), not none.")
    for number in several:
        whole_number("gpus", number, 1, most=MOST_GPUS)
    return tuple(sorted(set(several)))


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
    gpus: Sequence[int],
) -> list[PlanOption]:
    batch, micro_batch, accumulate = sizes
    tried = (
        [dict(case.mesh)]
        if case.mesh
        else [mesh for number in gpus for mesh in meshes(number, machine.gpus_per_node, counts.shape)]
    )
    if parts := case.parts_kept:
        tried = [mesh for mesh in tried if mesh.get("fsdp", 1) % parts == 0 and mesh["fsdp"] > parts]
        if not tried:
            raise InputError(
                f"reshard={parts} is a part of an fsdp axis, and no mesh of {gpus[-1]} GPUs has a larger one."
            )
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
    if micro_batch and accumulate:
        return InputError(
            f"A batch of {batch} is not what {where} makes with {' and '.join(given)}, which is {least}: leave one of the three out."
        )
    return InputError(
        f"A batch of {batch} cannot be divided on {where}{' with ' + ' and '.join(given) if given else ''}: "
        f"{replicas} rank{' holds a sample' if replicas == 1 else 's hold a sample'} of {'its' if replicas == 1 else 'their'} own, so take a multiple of {least}."
    )


def _check_switches(fsdp: Mapping[str, Any] | None, mesh: Mapping[str, int] | None) -> None:
    """Refuse switches of FSDP that have no meaning, or none on the mesh that is given."""
    part: Any = fsdp.get("reshard") if isinstance(fsdp, Mapping) else None
    ranks = (mesh or {}).get("fsdp", 1)
    if fsdp and mesh and ranks == 1:
        raise InputError(
            f"fsdp changes how weights are sharded, and the mesh {written(mesh)} shards none; leave fsdp out."
        )
    job_options({"fsdp": ranks if ranks > 1 else 2 * part if is_part(part) else 2}, fsdp=fsdp)
