"""A case priced: memory by kind, predicted step and words, as an option of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...results.plan import PlanOption
from .job_case import Case
from .machine import Machine
from .plan_words import assumptions, bound_of, why
from .rank_memory import rank_memory
from .step_time import predict_step
from .workload import Workload


def price(work: Workload, case: Case, machine: Machine) -> PlanOption:
    """The option that a case is, with its predicted step."""
    parts = predict_step(work, case, machine)
    memory = rank_memory(work, case, machine)
    steps = case.accumulate * case.replicas
    peak = machine.ceilings.peak("float32" if case.precision == "fp32" else "bfloat16") or 1.0
    return PlanOption(
        mesh=case.mesh,
        micro_batch=case.micro_batch,
        accumulate=case.accumulate,
        checkpoint=case.checkpoint,
        parts=parts,
        memory=memory,
        room=machine.room,
        gpus=case.gpus,
        samples=case.samples,
        tokens=work.tokens * steps if work.tokens else None,
        model_flops=int(work.model_flops * steps),
        peak_flops=peak,
        bound=bound_of(parts),
        why=why(parts, memory, machine),
        assumptions=assumptions(work, case, machine),
    )


def best_split(
    case: Case, splits: Sequence[tuple[int, int]], counted: Callable[[int, str], Workload], machine: Machine
) -> PlanOption | None:
    """The fastest division of the batch that fits; if none fits, the one that is nearest to it."""
    found = []
    for micro_batch, accumulate in splits:
        one = replace(case, micro_batch=micro_batch, accumulate=accumulate)
        option = price(counted(micro_batch, case.checkpoint), one, machine)
        found.append(option)
        if option.peak_bytes - option.memory.get("gradients", 0) > option.room:
            break  # a larger micro-batch keeps more, and saves at most the gradients of an earlier one
    return min(found, key=_place, default=None)


def ranked(options: Iterable[PlanOption]) -> tuple[PlanOption, ...]:
    """The fastest for its GPUs that fits first; those that do not fit last, the nearest to it first."""
    return tuple(sorted(options, key=_place))


def _place(option: PlanOption) -> tuple[bool, float]:
    return not option.fits, -option.samples_per_second / option.gpus if option.fits else option.peak_bytes
