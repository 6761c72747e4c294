"""Serving divided over GPUs: tensor parallel inside a node, stages or replicas beyond it, each batch with a predicted step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ... import units
from ...hardware.kernel_shares import shared_ceilings
from ...results.comm import ALL_REDUCE
from ...results.plan import PlanOption
from ...results.profile import Profile
from ..limits.fused import served_seconds
from ..limits.step_load import Load
from ..serving import MOST, Serving, first_true
from ..serving_facts import past_positions
from .job_case import Case
from .machine import Machine
from .mesh_search import Shape, meshes
from .plan_words import too_much

BATCHES = (1, 8, 64, 256)
"""Sequences of a replica that are tried beside the most that fit."""
SERVING_ASSUMPTIONS = (
    "products", "reads", "attention", "memory", "kernel", "nvlink", "network", "between_nodes", "latency", "fragments", "reserved",
)  # fmt: skip
"""Assumptions of a machine that a plan for serving uses."""
Counted = Callable[[Profile], float | None]
Of = Callable[[Counted], float | None]
KERNELS, OTHER, LINKS, STAGES = "kernels", "other kernels", "tensor parallel", "stages"


@dataclass(frozen=True)
class Service:
    """A generation of one sequence, and what of the model decides how it can be divided."""

    serving: Serving
    shape: Shape
    hidden_bytes: int
    """Bytes of one token between two blocks."""
    dtype: str
    """Of weights, cache and products."""
    reduces: int
    """All-reduces of a forward of the decoder."""
    encoder_reduces: int = 0
    """All-reduces while an encoder reads the prompt."""
    latent: bool = False
    """Whether the cache is one vector a token that all heads share."""

    @property
    def weights(self) -> int:
        """Bytes of all weights and buffers."""
        peak = self.serving.made.prefill.at_peak
        return peak.get("parameters", 0) + peak.get("buffers", 0)

    @property
    def cache(self) -> int:
        """Bytes that one sequence keeps at the end."""
        return self.serving.made.kv.bytes_at(self.serving.made.held)

    def temporaries(self, batch: int) -> int:
        """Bytes that come and go: while one prompt is read, or in a step of the batch."""
        made = self.serving.made
        prompt, step = (profile.at_peak.get("temporaries", 0) for profile in (made.prefill, made.last))
        return max(prompt, batch * step)


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
    too_many = first_true(lambda batch: sum(_memory(service, case, machine, batch).values()) > machine.room)
    return MOST if too_many is None else too_many - 1


def _memory(service: Service, case: Case, machine: Machine, batch: int) -> dict[str, int]:
    tp, pp = case.axis("tp"), case.axis("pp")
    fleeting = service.temporaries(batch) / tp
    parts = {
        "parameters": service.weights / tp / pp,
        # every stage holds its part of a batch for each stage
        "kv cache": batch * service.cache / (1 if service.latent else tp),
        "temporaries": fleeting,
        "fragments": machine.fragments * fleeting,
    }
    return {kind: int(size) for kind, size in parts.items() if size >= 1}


def _kernels(service: Service, load: Load, batch: int, machine: Machine, tp: int) -> float:
    ceilings = service.serving.ceilings
    roof = load.least(ceilings, batch, tp, 1 if service.latent else tp) if ceilings is not None else None
    if roof is None:
        return 0.0
    return roof.at_peak / machine.shares.products + (roof.limit - roof.at_peak) / machine.shares.reads


def _other(service: Service, load: Load, batch: int, machine: Machine, tp: int, of: Of) -> float:
    """Seconds beside reading and products: each kernel's moment, and what ops reach less than these.

    One sequence alone says how much less; it grows with the work on weights, since a cache is read as fast as anything.
    """
    whole, bare = (of(_counted(service, machine, moment)) or 0.0 for moment in (machine.kernel, 0.0))
    less = max(0.0, bare - _kernels(service, load, 1, machine, 1))
    now, alone = (_kernels(service, load.without_cache, *size) for size in ((batch, machine, tp), (1, machine, 1)))
    return whole - bare + (less * now / alone if alone else less)


def _counted(service: Service, machine: Machine, kernel: float) -> Counted:
    """Predicted seconds of a counted forward, with the shares of this machine."""
    ceilings = service.serving.ceilings
    shared = shared_ceilings(ceilings, machine.shares, kernel) if ceilings is not None else None
    return lambda profile: served_seconds(profile, shared) if shared is not None else None


def _exchanges(service: Service, case: Case, machine: Machine, tokens: int, encoded: int = 0) -> dict[str, float]:
    """Seconds of the links: `tokens` pass the decoder, `encoded` ones the encoder before it."""
    tp, pp = case.axis("tp"), case.axis("pp")

    def reduced(passing: int) -> float:
        return machine.seconds(ALL_REDUCE, passing * service.hidden_bytes, tp, case.apart("tp"))

    step = machine.seconds("send", (tokens + encoded) * service.hidden_bytes / tp, 2, case.apart("pp"))
    links = service.reduces * reduced(tokens) + service.encoder_reduces * reduced(encoded)
    return {LINKS: links, STAGES: (pp - 1) * step}


def _option(service: Service, case: Case, machine: Machine, batch: int) -> PlanOption:
    tp, lanes = case.axis("tp"), case.axis("dp") * case.axis("pp")
    made, serving = service.serving.made, service.serving
    load, prompt = serving.step_load(), serving.prefill_load
    parts = {
        KERNELS: _kernels(service, load, batch, machine, tp),
        OTHER: _other(service, load, batch, machine, tp, serving.mean_of_steps),
        **_exchanges(service, case, machine, batch),
    }
    parts = {name: seconds for name, seconds in parts.items() if seconds > 0}
    first = _kernels(service, prompt, 1, machine, tp)
    first += _other(service, prompt, 1, machine, tp, lambda seconds_of: seconds_of(made.prefill))
    encoded = made.prompt if service.encoder_reduces else 0
    first += sum(_exchanges(service, case, machine, made.seen, encoded).values())
    memory = _memory(service, case, machine, batch)
    step = sum(parts.values())
    slowest = max(parts, key=lambda name: parts[name])
    roof = serving.step_roof(batch=batch)
    compute = roof is not None and 2 * roof.at_peak >= roof.limit
    said = _too_many(service, case, machine, memory) or (
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
        model_flops=int(2 * serving.step_load().macs * batch * lanes),
        peak_flops=machine.ceilings.peak(service.dtype) or 1.0,
        first_token=first,
        bound=_bound(slowest, compute=compute),
        why=said,
        assumptions=(*_words(service, case), *_links(machine)),
    )


def _bound(slowest: str, *, compute: bool) -> str:
    """What most of a step goes to."""
    if slowest == KERNELS:
        return "compute" if compute else "memory"
    return "launch" if slowest == OTHER else "communication"


def _too_many(service: Service, case: Case, machine: Machine, memory: dict[str, int]) -> str:
    """By how much sequences do not fit, and how many would; empty if they do."""
    said = too_much(memory, machine.room)
    if not said:
        return ""
    most = largest_batch(service, case, machine) * case.axis("dp") * case.axis("pp")
    return f"{said}; {f'{most:,} sequences would fit' if most else 'not one sequence would fit'}"


def _words(service: Service, case: Case) -> tuple[str, ...]:
    lines = [
        "a step makes one token of each sequence; every weight and every key and value is read once",
        "prompts run one after the other, so the temporaries of one are held, or those of a step of the batch",
        *past_positions(service.serving.made),
    ]
    if case.axis("tp") > 1:
        lines.append(
            f"tensor parallel divides weights, {'' if service.latent else 'cache '}and work evenly; {service.reduces} all-reduces a step are not covered"
        )
        if service.latent:
            lines.append(
                "every GPU keeps and reads the whole cache: a latent that all heads share cannot be divided by heads"
            )
    if case.axis("pp") > 1:
        lines.append(
            "stages hold as many batches as there are stages, so that all of them work; a token passes all stages"
        )
    return tuple(lines)


def _links(machine: Machine) -> tuple[str, ...]:
    s = machine.shares
    return (
        f"kernels reach {s.products:.0%} of the peak in products, {s.reads:.0%} of the bandwidth while they read: products, reads",
        (
            f"norms, attention and experts reach less, by as much as for one sequence; {units.seconds(machine.kernel)} of each kernel: memory, "
            "attention, kernel"
        ),
        (
            f"inside a node of {machine.gpus_per_node}, {units.si(machine.inside, 'B/s')}: nvlink; between nodes {s.between_nodes:g} "
            f"Gbit/s a GPU: between_nodes; {units.seconds(s.latency)} a hop: latency"
        ),
    )
