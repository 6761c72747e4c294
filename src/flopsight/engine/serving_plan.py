"""plan(serve=True): generation divided over GPUs, counted for one sequence and priced for any batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..analysis.plan.machine import Machine
from ..analysis.plan.mesh_search import check_shape
from ..analysis.plan.pricing import ranked
from ..analysis.plan.serving_options import Service, serving_meshes, serving_options
from ..distributed.mesh_axes import written
from ..errors import InputError
from ..results.plan import Plan
from .block_counts import BlockCounts
from .decoding import generation

PROMPT, NEW = 2048, 256
"""Tokens if none are given."""


def plan_serving(
    target: str,
    *,
    gpus: int,
    on: str,
    machine: Machine,
    mesh: Mapping[str, int] | None,
    batch: int | None,
    prompt: int | None,
    new: int | None,
    progress: Callable[[str], object] | None,
) -> Plan:
    """Tensor-parallel serving, the most tokens a second that fit first; `batch` is the sequences of all GPUs together."""
    prompt, new = prompt or PROMPT, new or NEW
    counts = BlockCounts(target, seq=prompt, input_shape=None, dtype="bfloat16", progress=progress)
    shape = counts.shape
    if mesh is not None:
        beyond = [axis for axis, size in mesh.items() if size > 1 and axis not in ("dp", "tp", "pp")]
        if beyond:
            raise InputError(f"Serving is divided along tp, pp and dp, not along {' or '.join(beyond)}.")
        check_shape(mesh, gpus, shape)
    made = generation(target, input_shape=(1, prompt), new_tokens=new, latency=False)
    service = Service(made.serving(on), shape, 2 * counts.width)
    tried: list[dict[str, Any]] = [dict(mesh)] if mesh else serving_meshes(gpus, machine.gpus_per_node, shape)
    options = [option for one in tried for option in serving_options(service, one, machine, batch)]
    if not options:
        lanes = sorted({one.get("dp", 1) * one.get("pp", 1) for one in tried})
        raise InputError(
            f"{batch} sequences cannot be divided on {written(tried[0]) if len(tried) == 1 else 'any mesh'}: take a multiple of {lanes[0]}."
        )
    settings = {"prompt": f"{prompt:,}", "new": f"{new:,}", "batch": f"{batch:,}" if batch else "", "serve": "yes"}
    return Plan(target, machine.ceilings.name, gpus, ranked(options), {k: v for k, v in settings.items() if v})
