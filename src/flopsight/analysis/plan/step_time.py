"""The predicted step of a job: kernels by the share of their limit that they reach, what communication leaves uncovered, the bubble."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from ...hardware.op_families import family
from ...results.comm import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from ...results.costs import OpRow
from ...results.records import BACKWARD, FORWARD, RECOMPUTE
from ..limits.fused import fusable
from ..limits.roofline import row_roof
from .job_case import Case
from .machine import Machine
from .workload import Part, Workload

PRODUCTS, ATTENTION, CONVOLUTIONS, OTHER = "products", "attention", "convolutions", "other kernels"
HOST, TENSOR, CONTEXT, EXPERTS = "host", "tensor parallel", "context parallel", "expert parallel"
SHARDS, REPLICAS, PIPELINE, OPTIMIZER = "sharding", "data parallel", "pipeline", "optimizer"
COMMUNICATION = (TENSOR, CONTEXT, EXPERTS, SHARDS, REPLICAS)
PASSES = ((FORWARD,), (RECOMPUTE, BACKWARD))
HOST_MEMORY = 100e9
"""Bytes a second at which a host's processors step weights."""


Seconds = defaultdict[str, float]


@dataclass(frozen=True)
class Pass:
    """Seconds of one pass of a block over a micro-batch, by what they go to."""

    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.parts.values())


def predict_step(work: Workload, case: Case, machine: Machine) -> dict[str, float]:
    """Predicted seconds of one step by what they go to, of which only what is not covered counts."""
    parts = _staged(work, case, machine) if case.axis("pp") > 1 else _in_one_stage(work, case, machine)
    parts[OPTIMIZER] += optimizer_seconds(work, case, machine)
    return {name: seconds for name, seconds in parts.items() if seconds > 0}


def passes(part: Part, work: Workload, case: Case, machine: Machine, *, block: bool) -> tuple[Pass, Pass]:
    """Forward, and backward with what it computes again, of a block or of what is outside the blocks."""
    found = []
    for phases in PASSES:
        parts = kernels(part, phases, case, machine)
        if block:
            again = phases is not PASSES[0] and case.checkpoint == "full"
            parts.update(_exchanges(part, work, case, machine, backward=phases is not PASSES[0], again=again))
        found.append(Pass(parts))
    return found[0], found[1]


def kernels(part: Part, phases: Iterable[str], case: Case, machine: Machine) -> Seconds:
    """Seconds of a part's kernels in some phases, by kind; the host's if it cannot hand them over faster."""
    found: Seconds = defaultdict(float)
    wanted, calls, shares = set(phases), 0.0, machine.shares
    for row in part.rows:
        roof = row_roof(row, machine.ceilings, "bfloat16") if row.phase in wanted else None
        if roof is None or not roof.limit:
            continue
        if case.compile and fusable(row):
            calls += row.calls * machine.fused
            found[OTHER] += machine.fused * roof.memory / shares.memory / case.split
        else:
            calls += row.calls
            kind = family(row, by_compute=roof.compute >= roof.memory)
            found[_goes_to(row)] += (roof.limit / shares.reached(kind) + row.calls * machine.kernel) / case.split
    handed = calls * machine.launch
    if handed > sum(found.values()):
        found[HOST] = handed - sum(found.values())
    return found


def _goes_to(row: OpRow) -> str:
    """What the seconds of an op are shown as."""
    if not row.cost.macs:
        return OTHER
    return ATTENTION if "attention" in row.op else CONVOLUTIONS if "conv" in row.op else PRODUCTS


def _exchanges(
    part: Part, work: Workload, case: Case, machine: Machine, *, backward: bool, again: bool
) -> dict[str, float]:
    """Seconds that a block waits for other ranks inside a pass: nothing covers them."""
    tp, cp, ep = (case.axis(name) for name in ("tp", "cp", "ep"))
    handed = work.handed_on / cp / ep
    reduce = machine.seconds(ALL_REDUCE, handed, tp, case.apart("tp"))
    times = 2 * (2 if again else 1)
    keys = machine.seconds(ALL_GATHER, _keys_and_values(part, work, case) / tp / cp, cp, case.apart("cp"))
    swap = (
        machine.seconds(ALL_TO_ALL, work.experts_a_token * handed / tp, ep, case.apart("ep")) if part.experts else 0.0
    )
    more = 2 if backward else 1
    return {TENSOR: times * reduce, CONTEXT: more * keys, EXPERTS: times * swap}


def _keys_and_values(part: Part, work: Workload, case: Case) -> float:
    """Bytes of keys and values that a block's attention reads."""
    for row in part.rows:
        if row.phase == FORWARD and "attention" in row.op and row.shapes and len(row.shapes[0]) > 2:
            return 2 * case.compute_bytes * float(prod(row.shapes[0][1]))
    return 2.0 * work.handed_on


def _in_one_stage(work: Workload, case: Case, machine: Machine) -> Seconds:
    """Every rank runs all blocks: weights are gathered a block ahead, gradients reduced a block behind."""
    parts: Seconds = defaultdict(float)
    m, first, back = case.accumulate, None, 0.0
    together = min(case.wrap, max(1, work.depth))
    for part in work.blocks:
        forward, backward = passes(part, work, case, machine, block=True)
        ahead, behind = gathers(part, case, machine), reductions(part, case, machine, m)
        again = gathers_again(part, case, machine)
        for one, beside in ((forward, ahead), (backward, again + behind)):
            _add(parts, one.parts, m * part.count)
            parts[SHARDS] += m * part.count * uncovered(one.total, beside, machine.shares.overlap)
        first = first or (ahead, behind)
        back += part.count * backward.total
    for one in passes(work.rest, work, case, machine, block=False):
        _add(parts, one.parts, m)
    ends = gathers(work.rest, case, machine) + reductions(work.rest, case, machine, m)
    parts[SHARDS] += m * (ends + sum(first or (0.0, 0.0)) * together)
    parts[REPLICAS] += _averaging(work.params, work.experts, case, machine, back, work.depth)
    return parts


def _staged(work: Workload, case: Case, machine: Machine) -> Seconds:
    """The slowest stage sets the pace of all micro-batches; the bubble is what the others wait for."""
    pp, m = case.axis("pp"), case.accumulate
    held = stages(work, pp)
    most = max(stage.blocks for stage in held)
    forward: Seconds = defaultdict(float)
    for part in work.blocks:
        for one in passes(part, work, case, machine, block=True):
            _add(forward, one.parts, part.count / work.depth)
    ends: Seconds = defaultdict(float)
    for one in passes(work.rest, work, case, machine, block=False):
        _add(ends, one.parts, 1)
    middle = _scaled(forward, most)
    tail = _scaled(forward, held[-1].blocks)
    _add(tail, ends, 1)
    stage = max(middle, tail, key=lambda found: sum(found.values()))
    parts = _scaled(stage, m)
    pace = sum(stage.values())
    chunks = min(machine.chunks, max(1, work.depth // pp))
    sent = machine.seconds("send", work.handed_on / case.split, 2, case.apart("pp"))
    parts[PIPELINE] += bubble(pp, m, chunks) * pace + 2 * chunks * sent * m * machine.shares.overlap
    largest = max((stage.held for stage in held), key=lambda part: sharded_params(part, case))
    times = m if case.reshards else 1
    ahead, behind = gathers(largest, case, machine), reductions(largest, case, machine, times)
    parts[SHARDS] += times * uncovered(pace, ahead + behind, machine.shares.overlap) + (ahead + behind) / most
    parts[REPLICAS] += _averaging(largest.params, largest.experts, case, machine, pace, most)
    return parts


def bubble(stages: int, accumulate: int, chunks: int) -> float:
    """Micro-batches of time that a stage waits in interleaved 1F1B with so many parts a stage.

    The first micro-batch comes back to a stage when it has passed all others; fewer of them than stages do not fill that time.
    """
    missing = max(0, stages - accumulate)
    return missing + (min(stages, accumulate) - 1) / chunks


def blocks_a_stage(depth: int, stages: int) -> tuple[int, ...]:
    """Blocks of the first stage, of the second if it is not the last, and of the last; no other has more than these.

    If blocks cannot be even, embedding and head count as one each, and the first stages have what is left over.
    """
    least, more = divmod(depth + 2, stages)
    found = least + (more > 0) - 1, least + (more > 1), least - 1
    if depth % stages == 0:
        found = (depth // stages,) * 3
    return found if stages > 2 else (found[0], found[2])


@dataclass(frozen=True)
class Stage:
    """Blocks that a rank runs, and the parameters of its part of the model."""

    blocks: int
    held: Part
    number: int = 0


def stages(work: Workload, count: int) -> tuple[Stage, ...]:
    """The stages that may be the fullest: the first, with the embeddings, the second, and the last, with the head; or the whole model."""
    if count == 1:
        return (Stage(work.depth, Part(params=work.params, experts=work.experts)),)
    blocks = blocks_a_stage(work.depth, count)
    params = (work.params - work.rest.params) / work.depth
    experts = (work.experts - work.rest.experts) / work.depth
    first, last = work.ends or (0, work.rest.params)
    ends = (first, *(0,) * (len(blocks) - 2), last)
    numbers = (*range(len(blocks) - 1), count - 1)
    return tuple(
        Stage(each, Part(params=int(each * params + end), experts=int(each * experts)), number)
        for each, end, number in zip(blocks, ends, numbers, strict=True)
    )


def held_params(part: Part, case: Case) -> float:
    """Parameters of a part that one rank computes with: divided over tp, experts over ep too."""
    return sum(_held(part, case))


def _held(part: Part, case: Case) -> tuple[float, float]:
    """Those outside experts, and those in them."""
    return (part.params - part.experts) / case.axis("tp"), part.experts / case.axis("ep") / case.axis("tp")


def sharded_params(part: Part, case: Case) -> float:
    """Parameters of a part that last on one rank."""
    dense, experts = _held(part, case)
    return dense / case.dense_shards + experts / case.shards


def _units(part: Part, case: Case) -> list[tuple[float, int, int]]:
    """What of a part is gathered and reduced together: parameters, ranks, how far these are apart."""
    dense, experts = _held(part, case)
    if case.axis("ep") == 1:
        return [(dense + experts, case.shards, case.apart("cp"))]
    return [(dense, case.dense_shards, case.apart("ep")), (experts, case.shards, case.apart("cp"))]


def gathers(part: Part, case: Case, machine: Machine) -> float:
    """Seconds in which FSDP gathers the weights of a part."""
    return sum(
        machine.seconds(ALL_GATHER, held * case.compute_bytes / ranks, ranks, apart)
        for held, ranks, apart in _units(part, case)
    )


def gathers_again(part: Part, case: Case, machine: Machine) -> float:
    """Seconds in which backward gathers them once more: over fewer ranks if each of those kept a part."""
    if case.parts_kept:
        kept = held_params(part, case) * case.compute_bytes / case.parts_kept
        return machine.seconds(ALL_GATHER, kept, case.parts_kept, case.apart("cp"))
    return gathers(part, case, machine) if case.reshards else 0.0


def reductions(part: Part, case: Case, machine: Machine, times: int) -> float:
    """Seconds in which FSDP reduces the gradients of a part, `times` a step; over replicas once, of which this is a part."""
    if case.shards == 1:
        return 0.0
    copies, found = case.axis("dp"), 0.0
    for held, ranks, apart in _units(part, case):
        handed = held * case.reduce_bytes
        between = machine.seconds(ALL_REDUCE, handed / ranks, copies, case.apart("dp")) / times
        found += machine.seconds(REDUCE_SCATTER, handed, ranks, apart) + between
    return found


def _averaging(params: float, experts: float, case: Case, machine: Machine, back: float, depth: int) -> float:
    """Seconds of averaging gradients over plain replicas that the last micro-batch's backward does not cover."""
    copies, ep = case.axis("dp"), case.axis("ep")
    if copies * ep == 1 or case.shards > 1:
        return 0.0
    dense, own = (held * case.gradient_bytes for held in _held(Part(params=int(params), experts=int(experts)), case))
    apart = case.apart("dp")
    whole = machine.seconds(ALL_REDUCE, dense + own, copies, apart)
    if ep > 1:
        whole = machine.seconds(ALL_REDUCE, dense, copies * ep, case.apart("ep"))
        whole += machine.seconds(ALL_REDUCE, own, copies, apart)
    return uncovered(back, whole, machine.shares.overlap) + whole / max(1, depth)


def uncovered(work: float, beside: float, overlap: float) -> float:
    """Seconds that communication adds to the work that it runs beside."""
    return max(0.0, beside - work) + overlap * min(work, beside)


def optimizer_seconds(work: Workload, case: Case, machine: Machine) -> float:
    """The update: weights, gradients and state, read and written once by a fused optimizer."""
    held = max(sharded_params(stage.held, case) for stage in stages(work, case.axis("pp")))
    moved = held * (3 * case.weight_bytes + 2 * case.state_bytes)
    if case.offloads:
        crossing = held * (case.gradient_bytes + case.weight_bytes)
        return moved / HOST_MEMORY + crossing / machine.shares.host
    return moved / ((machine.ceilings.bandwidth or 1.0) * machine.shares.memory)


def _add(parts: Seconds, more: Mapping[str, float], times: float) -> None:
    for name, seconds in more.items():
        parts[name] += times * seconds


def _scaled(parts: Mapping[str, float], times: float) -> Seconds:
    found: Seconds = defaultdict(float)
    _add(found, parts, times)
    return found
