"""Bytes of the fullest GPU of a job at its peak, by kind."""

from __future__ import annotations

from .job_case import Case
from .machine import Machine
from .step_time import Stage, held_params, sharded_params, stages
from .workload import Workload

Memory = dict[str, int]


def rank_memory(work: Workload, case: Case, machine: Machine) -> Memory:
    """The peak by kind, of the fullest stage."""
    found = (_stage_memory(work, case, machine, stage) for stage in stages(work, case.axis("pp")))
    return max(found, key=lambda memory: sum(memory.values()))


def _stage_memory(work: Workload, case: Case, machine: Machine, stage: Stage) -> Memory:
    """At the start of backward, when all activations are kept, or at its end, when all gradients are."""
    staged = case.axis("pp") > 1
    held, shard = held_params(stage.held, case), sharded_params(stage.held, case)
    on_device = 0.0 if case.offloads else 1.0
    lasting = {
        "parameters": on_device * shard * case.weight_bytes,
        "optimizer": on_device * shard * case.state_bytes,
        **work.standing,
    }
    # over stages gradients of all micro-batches are added up before they are reduced once
    gradients = on_device * (held if staged else shard) * case.gradient_bytes
    # gradients of an earlier micro-batch, or the buckets of DistributedDataParallel, are there before backward
    early = case.accumulate > 1 or staged or (case.axis("dp") > 1 and case.shards == 1)
    begin = {**lasting, "gradients": gradients if early else 0.0, **_gathered(work, case, held, at_loss=True)}
    begin["activations"], begin["temporaries"] = _begin_of_backward(work, case, machine, stage)
    end = {**lasting, "gradients": gradients, **_gathered(work, case, held, at_loss=False)}
    kept = work.kept_in_block
    end["activations"], end["temporaries"] = kept / case.split, (work.alive_in_block - kept) / case.split
    return max((_whole(one, machine) for one in (begin, end)), key=lambda found: sum(found.values()))


def _begin_of_backward(work: Workload, case: Case, machine: Machine, stage: Stage) -> tuple[float, float]:
    """Kept activations, and what else is alive."""
    count, kept = case.axis("pp"), sum(part.count * part.saved for part in work.blocks)
    if count == 1:
        return work.saved / case.split, (work.alive - work.saved) / case.split
    held = _in_flight(case, machine, work.depth, stage.number) * stage.blocks * kept / work.depth
    if stage.number == count - 1:
        return (held + work.rest.saved) / case.split, (work.alive - work.saved) / case.split
    return held / case.split, work.alive_in_block / case.split


def _in_flight(case: Case, machine: Machine, depth: int, stage: int) -> float:
    """Micro-batches whose activations a stage keeps at most: 1F1B has one for every stage from here to the last.

    With several parts a stage (interleaved), a part of the model has been run for 2 x (stages behind) + (parts - 1) x
    stages micro-batches before the first backward, and one more.
    """
    count = case.axis("pp")
    parts = min(machine.chunks, max(1, depth // count))
    behind = count - 1 - stage
    running = (2 * behind + (parts - 1) * count + 1) / parts if parts > 1 else behind + 1
    return min(case.accumulate, running)


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
    whole = min(held, rest + 2 * case.wrap * block) if case.reshards else held
    return {"gathered": (whole + min(held, rest + case.wrap * block)) * case.compute_bytes}


def _whole(parts: dict[str, float], machine: Machine) -> Memory:
    moving = parts["activations"] + parts["temporaries"] + parts["gathered"]
    parts = {**parts, "fragments": machine.fragments * moving}
    return {kind: int(size) for kind, size in parts.items() if size >= 1}
