"""plan(serve=True): generation divided over GPUs, counted for one sequence and priced for any batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from ..analysis.plan.machine import Machine
from ..analysis.plan.mesh_search import Shape, check_shape
from ..analysis.plan.pricing import ranked
from ..analysis.plan.serving_options import Service, serving_meshes, serving_options
from ..distributed.blocks import repeated_blocks
from ..distributed.mesh_axes import written
from ..errors import InputError
from ..results.generation import Generation
from ..results.plan import Plan
from ..targets.inputs import TensorSpec
from ..targets.loading import Target, load_target
from .block_counts import shape_of, text_config
from .decode_loop import is_encoder_decoder
from .decoding import generation, prompt_of

PROMPT, NEW = 2048, 256
"""Tokens if none are given."""
BYTES = {"bfloat16": 2, "float32": 4}


def plan_serving(
    target: object,
    *,
    gpus: Sequence[int],
    on: str,
    machine: Machine,
    dtype: str,
    mesh: Mapping[str, int] | None,
    batch: int | None,
    prompt: int | None,
    new: int | None,
    progress: Callable[[str], object] | None,
) -> Plan:
    """Tensor-parallel serving, the most tokens a second that fit first; `batch` is the sequences of all GPUs together."""
    if not isinstance(target, str):
        raise InputError("Serving is planned for a target by its name, like 'hf:llama-3.1-8b'; give one.")
    prompt, new = (PROMPT if prompt is None else prompt), (NEW if new is None else new)
    if progress is not None:
        progress(f"{target}: building")
    loaded = load_target(target, [TensorSpec((1, prompt))], dtype=dtype, meta=True, generates=True)
    shape = _checked(loaded, mesh, gpus, prompt)
    with loaded.calling():
        made = generation(loaded.model.eval(), prompt_of(loaded), new, latency=False)
    service = _service(loaded.model, made, shape, dtype, on)
    tried: list[dict[str, Any]] = (
        [dict(mesh)]
        if mesh
        else [one for number in gpus for one in serving_meshes(number, machine.gpus_per_node, shape)]
    )
    options = [option for one in tried for option in serving_options(service, one, machine, batch)]
    if not options:
        lanes = sorted({one.get("dp", 1) * one.get("pp", 1) for one in tried})
        raise InputError(
            f"{batch} sequences cannot be divided on {written(tried[0]) if len(tried) == 1 else 'any mesh'}: take a multiple of {lanes[0]}."
        )
    settings = {"prompt": f"{prompt:,}", "new": f"{new:,}", "batch": f"{batch:,}" if batch else "", "dtype": dtype, "serve": "yes"}  # fmt: skip
    return Plan(target, machine.ceilings.name, gpus[-1], ranked(options), {k: v for k, v in settings.items() if v})


def _checked(loaded: Target, mesh: Mapping[str, int] | None, gpus: Sequence[int], prompt: int) -> Shape:
    """What decides how a model is divided; refused if it takes no tokens, or if a mesh does not divide it."""
    prompt_of(loaded)
    reads = str(getattr(loaded.model, "main_input_name", "input_ids"))
    if reads != "input_ids":
        raise InputError(
            f"{type(loaded.model).__name__} reads {reads}, not a prompt of tokens, so it cannot be planned here: "
            f"flopsight profile {loaded.text} --generate 256 --on DEVICE says what one device serves."
        )
    shape = shape_of(loaded.model, prompt)
    if mesh is not None:
        beyond = [axis for axis, size in mesh.items() if size > 1 and axis not in ("dp", "tp", "pp")]
        if beyond:
            raise InputError(f"Serving is divided along tp, pp and dp, not along {' or '.join(beyond)}.")
        check_shape(mesh, gpus[0], shape)
    return shape


def _service(model: nn.Module, made: Generation, shape: Shape, dtype: str, on: str) -> Service:
    """A generation with what tensor parallelism sends: an all-reduce behind each attention, cross-attention and feed-forward."""
    config, blocks = text_config(model), repeated_blocks(model)
    decoding = sum(1 for path in blocks if path in made.first.nodes and made.first[path].calls)
    both = is_encoder_decoder(model)
    rank, rotated = (getattr(config, name, None) for name in ("kv_lora_rank", "qk_rope_head_dim"))
    kept = sum(part.token_bytes for part in made.kv.parts)
    latent = isinstance(rank, int) and kept <= decoding * (rank + (rotated or 0)) * BYTES[dtype]
    return Service(
        made.serving(on),
        shape,
        hidden_bytes=getattr(config, "hidden_size", 0) * BYTES[dtype],
        dtype=dtype,
        reduces=(3 if both else 2) * decoding,
        encoder_reduces=2 * (len(blocks) - decoding) if both else 0,
        latent=latent,
    )
