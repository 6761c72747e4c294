"""What an option says of itself: what binds it, what the next limit is, what was assumed."""

from __future__ import annotations

from collections.abc import Mapping

from ... import units
from .job_case import Case
from .machine import Machine, machine_words
from .step_time import ATTENTION, COMMUNICATION, CONVOLUTIONS, HOST, OPTIMIZER, OTHER, PIPELINE, PRODUCTS
from .workload import Workload

BOUNDS = {
    "compute": (PRODUCTS, ATTENTION, CONVOLUTIONS),
    "memory": (OTHER, OPTIMIZER),
    "communication": COMMUNICATION,
    "launch": (HOST,),
    "pipeline": (PIPELINE,),
}


def bound_of(parts: Mapping[str, float]) -> str:
    """What most of the step goes to."""
    return max(BOUNDS, key=lambda bound: sum(parts.get(name, 0.0) for name in BOUNDS[bound]))


def why(parts: Mapping[str, float], memory: Mapping[str, int], machine: Machine) -> str:
    """What binds an option and what the next limit is; of one that does not fit, by how much."""
    if said := too_much(memory, machine.room):
        return said
    peak, room = sum(memory.values()), machine.room
    kind = max(memory, key=lambda name: memory[name], default="nothing")
    step = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    first, second = ordered[0], ordered[1] if len(ordered) > 1 else None
    said = f"{units.percent(first[1] / step)} of the predicted step goes to {first[0]}"
    if second:
        said += f", {units.percent(second[1] / step)} to {second[0]}"
    return f"{said}; the next limit is memory, of which {units.percent(peak / room)} is used, most by {kind}"


def too_much(memory: Mapping[str, int], room: int) -> str:
    """By how much memory does not fit; empty if it does."""
    peak = sum(memory.values())
    if peak <= room:
        return ""
    kind, largest = max(memory.items(), key=lambda item: item[1])
    return (
        f"does not fit: {units.size(peak)} of {units.size(room)}, {units.size(peak - room)} too much; "
        f"most of it is {kind}, {units.size(largest)}"
    )


def assumptions(work: Workload, case: Case, machine: Machine) -> tuple[str, ...]:
    """Everything that a prediction takes for granted, each with the name that overrides it."""
    lines = [*machine_words(machine), _state(case)]
    if case.shards > 1:
        kept = "freed after forward" if case.reshards else "kept until backward"
        if case.parts_kept:
            kept = f"kept until backward in parts, each on one of {case.parts_kept} ranks"
        lines.append(
            f"FSDP gathers a unit of {case.wrap} block{'s' if case.wrap > 1 else ''} while the one before runs, reduces gradients "
            f"beside backward; gathered weights are {kept}; the first gather and the last reduction are not covered"
        )
    if case.axis("tp") > 1:
        lines.append(
            "tensor parallel divides blocks, embedding and head evenly, with norms along the sequence, as Megatron-LM and torchtitan "
            "do; its two all-reduces a block and pass are not covered"
        )
        lines.append(
            "a dry run (profile --mesh) divides the products of blocks alone, as transformers does, so it holds more: norms, embedding and "
            "head stay whole, and each layer that is divided by columns reduces its input's gradient by itself, five in a Llama block"
        )
    if case.axis("cp") > 1:
        lines.append(
            "context parallel by closed form: work divided evenly, keys and values gathered before attention, weights sharded over cp too"
        )
    if case.axis("ep") > 1:
        lines.append(
            "expert parallel by closed form: ep ranks share a micro-batch sample by sample, tokens spread evenly over experts, each to "
            f"{work.experts_a_token} of them, two exchanges a block and pass; what is not an expert is sharded over ep too, or averaged"
        )
    if case.axis("pp") > 1:
        chunks = min(machine.chunks, max(1, work.depth // case.axis("pp")))
        schedule = f"interleaved 1F1B with {chunks} parts a stage" if chunks > 1 else "1F1B"
        lines.append(
            f"pipeline by closed form: {schedule}, embedding and head counted as a layer each if uneven: chunks"
        )
    if case.axis("dp") > 1 and case.shards == 1:
        lines.append("replicas average gradients behind the last micro-batch's backward")
    return (*lines, *_kernels(work, case, machine))


def _kernels(work: Workload, case: Case, machine: Machine) -> list[str]:
    if not case.compile:
        return [f"the host hands over an op in {units.seconds(machine.launch)}: launch"]
    kept = (
        "activations are what torch's partitioner keeps when it compiles the model as one graph; results that only fused kernels read "
        "take no memory"
        if work.compiled
        else "memory is that of the eager step, as for all checkpointed blocks and for models that torch does not compile as one graph"
    )
    return [f"a compiler leaves {machine.fused:.0%} of the bytes of pointwise chains: fused", kept]


def _state(case: Case) -> str:
    each = case.weight_bytes + case.gradient_bytes + case.state_bytes
    where = ", in the host's memory" if case.offloads else ""
    copied = case.shards == 1 and case.compute_bytes < case.weight_bytes
    instead = " in a copy of the weights: torch.autocast casts op by op, keeps more and takes longer" if copied else ""
    return (
        f"{case.optimizer} with {case.precision}: {each:g} bytes a parameter for weights, gradients and state{where}, "
        f"{case.compute_bytes} to compute with{instead}; the update is fused"
    )
