"""Serving divided over GPUs: tensor parallel inside a node, stages or replicas beyond it, each batch with a predicted step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import units
from ...results.comm import ALL_REDUCE
from ...results.plan import PlanOption
from ..limits.roofline import Roof
from ..serving import Serving
from .job_case import Case
from .machine import Machine
from .mesh_search import Shape, meshes
from .plan_words import too_much

BATCHES = (1, 8, 64, 256)
"""Sequences of a replica that are tried beside the most that fit."""
KERNELS, LINKS, STAGES = "kernels", "tensor parallel", "stages"
REDUCES = 2
"""All-reduces of a block in a forward."""


@dataclass(frozen=True)
class Service:
    """A generation of one sequence, and what of the model decides how it can be divided."""

    serving: Serving
    shape: Shape
    hidden_bytes: int
    """Bytes of one token between two blocks."""

    @property
    def weights(self) -> int:
        """Bytes of all weights and buffers."""
        peak = self.serving.made.prefill.at_peak
        return peak.get("parameters", 0) + peak.get("buffers", 0)

    @property
    def cache(self) -> int:
        """Bytes that one sequence keeps at the end."""
        return self.serving.made.kv.bytes_at(self.serving.made.held)

    @property
    def temporaries(self) -> int:
        """Bytes that come and go while one prompt is read."""
        return self.serving.made.prefill.at_peak.get("temporaries", 0)


def serving_meshes(gpus: int, gpus_per_node: int, shape: Shape) -> list[dict[str, int]]:
    """Tensor parallel inside a node; what is left are replicas, or stages."""
    return [mesh for mesh in meshes(gpus, gpus_per_node, shape) if not {"fsdp", "cp", "ep"} & set(mesh)]


def serving_options(
    service: Service, mesh: dict[str, int], machine: Machine, batch: int | None
) -> Iterator[PlanOption]:
    """An option for each batch that is tried on a mesh; `batch` is that of all GPUs together."""
    case = Case(mesh, 1, 1)
    lanes = case.axis("dp") * case.axis("pp")
    if batch is not None:
        if batch % lanes == 0:
            yield _option(service, case, machine, batch // lanes)
        return
    most = largest_batch(service, case, machine)
    for size in sorted({size for size in (*BATCHES, most) if 0 < size <= most} or {1}):
        yield _option(service, case, machine, size)


def largest_batch(service: Service, case: Case, machine: Machine) -> int:
    """The most sequences of a replica that fit; 0 if none does."""
    empty = sum(_memory(service, case, machine, 0).values())
    one = sum(_memory(service, case, machine, 1).values()) - empty
    return max(0, int((machine.room - empty) // max(1, one)))


def _memory(service: Service, case: Case, machine: Machine, batch: int) -> dict[str, int]:
    tp, pp = case.axis("tp"), case.axis("pp")
    parts = {
        "parameters": service.weights / tp / pp,
        "kv cache": batch * service.cache / tp,  # every stage holds its part of a batch for each stage
        "temporaries": service.temporaries / tp,
        "fragments": machine.fragments * service.temporaries / tp,
    }
    return {kind: int(size) for kind, size in parts.items() if size >= 1}


def _kernels(roof: Roof | None, machine: Machine, tp: int) -> float:
    if roof is None:
        return 0.0
    shares = machine.shares
    return (roof.at_peak / shares.products + (roof.limit - roof.at_peak) / shares.memory) / tp


def _exchanges(service: Service, case: Case, machine: Machine, tokens: int) -> dict[str, float]:
    tp, pp, sent = case.axis("tp"), case.axis("pp"), tokens * service.hidden_bytes
    reduce = machine.seconds(ALL_REDUCE, sent, tp, case.apart("tp"))
    step = machine.seconds("send", sent / tp, 2, case.apart("pp"))
    return {LINKS: REDUCES * service.shape.depth * reduce, STAGES: (pp - 1) * step}


def _option(service: Service, case: Case, machine: Machine, batch: int) -> PlanOption:
    tp, lanes = case.axis("tp"), case.axis("dp") * case.axis("pp")
    made, serving = service.serving.made, service.serving
    parts = {
        KERNELS: _kernels(serving.step_roof(batch=batch), machine, tp),
        **_exchanges(service, case, machine, batch),
    }
    parts = {name: seconds for name, seconds in parts.items() if seconds > 0}
    first = _kernels(serving.prefill_roof(batch=1), machine, tp)
    first += sum(_exchanges(service, case, machine, made.prompt).values())
    memory = _memory(service, case, machine, batch)
    step = sum(parts.values())
    slowest = max(parts, key=lambda name: parts[name])
    roof = serving.step_roof(batch=batch)
    compute = roof is not None and 2 * roof.at_peak >= roof.limit
    said = too_much(memory, machine.room) or (
        f"predicted {units.seconds(first)} to the first token of a prompt, {units.seconds(step)} a token; "
        f"{units.percent(parts[slowest] / step)} of a predicted step goes to {slowest}"
    )
    return PlanOption(
        mesh=case.mesh,
        micro_batch=batch,
        accumulate=1,
        checkpoint="none",
        parts=parts,
        memory=memory,
        room=machine.room,
        gpus=case.gpus,
        samples=batch * lanes,
        tokens=batch * lanes,
        model_flops=int(2 * made.macs_per_token * batch * lanes),
        peak_flops=machine.ceilings.peak("bfloat16") or 1.0,
        bound="communication" if slowest != KERNELS else "compute" if compute else "memory",
        why=said,
        assumptions=(*_words(case), *_links(machine)),
    )


def _words(case: Case) -> tuple[str, ...]:
    lines = [
        "a step makes one token of each sequence; every weight and every key and value is read once",
        "prompts run one after the other, so the temporaries of one are held",
    ]
    if case.axis("tp") > 1:
        lines.append("tensor parallel divides weights, cache and work evenly; two all-reduces a block are not covered")
    if case.axis("pp") > 1:
        lines.append(
            "stages hold as many batches as there are stages, so that all of them work; a token passes all stages"
        )
    return tuple(lines)


def _links(machine: Machine) -> tuple[str, ...]:
    s = machine.shares
    return (
        f"kernels reach {s.products:.0%} of the peak in products, {s.memory:.0%} of the bandwidth: products, memory",
        (
            f"inside a node of {machine.gpus_per_node}, {units.si(machine.inside, 'B/s')}: nvlink; between nodes {s.between_nodes:g} "
            f"Gbit/s a GPU: between_nodes; {units.seconds(s.latency)} a hop: latency"
        ),
    )
