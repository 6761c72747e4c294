"""Bytes of the fullest GPU of a job at its peak, by kind."""

from __future__ import annotations

from .job_case import Case
from .machine import Machine
from .step_time import blocks_a_stage, held_params, sharded_params
from .workload import Part, Workload

Memory = dict[str, int]


def rank_memory(work: Workload, case: Case, machine: Machine) -> Memory:
    """The peak by kind: at the start of backward, when all activations are kept, or at its end, when all gradients are."""
    stages = case.axis("pp")
    whole = Part(params=work.params // stages, experts=work.experts // stages)
    held, shard = held_params(whole, case), sharded_params(whole, case)
    on_device = 0.0 if case.offloads else 1.0
    lasting = {
        "parameters": on_device * shard * case.weight_bytes,
        "optimizer": on_device * shard * case.state_bytes,
    }
    # over stages gradients of all micro-batches are added up before they are reduced once
    gradients = on_device * (held if stages > 1 else shard) * case.gradient_bytes
    # gradients of an earlier micro-batch, or the buckets of DistributedDataParallel, are there before backward
    early = case.accumulate > 1 or stages > 1 or (case.axis("dp") > 1 and case.shards == 1)
    begin = {**lasting, "gradients": gradients if early else 0.0, **_gathered(work, case, held, at_loss=True)}
    begin["activations"], begin["temporaries"] = _begin_of_backward(work, case, machine)
    end = {**lasting, "gradients": gradients, **_gathered(work, case, held, at_loss=False)}
    # of a model that was counted whole it is not known when its activations are freed
    kept = work.saved if work.alive_in_block == work.alive else 0
    end["activations"], end["temporaries"] = kept / case.split, (work.alive_in_block - kept) / case.split
    return max((_whole(one, machine) for one in (begin, end)), key=lambda found: sum(found.values()))


def _begin_of_backward(work: Workload, case: Case, machine: Machine) -> tuple[float, float]:
    """Kept activations, and what else is alive, on the fullest stage."""
    stages, kept = case.axis("pp"), sum(part.count * part.saved for part in work.blocks)
    if stages == 1:
        return work.saved / case.split, (work.alive - work.saved) / case.split
    most, last = blocks_a_stage(work.depth, stages)
    a_block = kept / work.depth
    chunks = min(machine.chunks, max(1, work.depth // stages))
    in_flight = min(case.accumulate, stages * (1 + (stages - 1) / (stages * chunks)) if chunks > 1 else stages)
    first = in_flight * most * a_block / case.split, work.alive_in_block / case.split
    final = (last * a_block + work.rest.saved) / case.split, (work.alive - work.saved) / case.split
    return max(first, final, key=sum)


def _gathered(work: Workload, case: Case, held: float, *, at_loss: bool) -> dict[str, float]:
    """Weights in the precision of compute beside their shards, and gradients that are not reduced yet."""
    if case.shards == 1:
        cast = held * case.compute_bytes if case.compute_bytes < case.weight_bytes else 0.0
        return {"gathered": cast}
    block = max((held_params(part, case) for part in work.blocks), default=0.0)
    rest = held_params(work.rest, case) if case.axis("pp") == 1 else 0.0
    if at_loss:  # the unit that runs, and the root, which stays gathered; of all others the parts that are kept
        running = min(held, rest + case.wrap * block)
        kept = (held - running) / case.parts_kept if case.parts_kept else 0.0
        return {"gathered": (running + kept if case.reshards else held) * case.compute_bytes}
    whole = rest + 2 * case.wrap * block if case.reshards else held
    return {"gathered": (whole + rest + case.wrap * block) * case.compute_bytes}


def _whole(parts: dict[str, float], machine: Machine) -> Memory:
    moving = parts["activations"] + parts["temporaries"] + parts["gathered"]
    parts = {**parts, "fragments": machine.fragments * moving}
    return {kind: int(size) for kind, size in parts.items() if size >= 1}
