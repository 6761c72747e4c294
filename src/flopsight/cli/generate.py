"""`flopsight profile --generate`: a prompt and the tokens after it, counted and timed apart."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .. import units
from ..errors import InputError
from ..hardware.named import named_ceilings
from ..results.generation import Generation
from ..results.packing import packing_of
from ..targets.inputs import described
from ..targets.loading import Target
from ..targets.users import users_code


@dataclass(frozen=True)
class Served:
    """How tokens are generated: what --generate, --cache, --weights, --draft, --accept and --draft-length say.

    The fields are arguments of `flopsight.generation`.
    """

    new_tokens: int
    cache: str = "dynamic"
    weights: str | None = None
    draft: str | None = None
    acceptance: float | None = None
    draft_length: int = 4


def check_served(served: Served | None, asked: Served, on: str | None) -> None:
    """Refuse options of a generation without one, packed weights that a device has no products for, and a draft without a chance."""
    if served is None and (asked.weights or asked.draft or asked.acceptance is not None):
        raise InputError("--weights, --draft and --accept are about the tokens of --generate N; add it.")
    if asked.weights:
        _check_device_runs(asked.weights, on)
    if asked.draft and asked.acceptance is None:
        raise InputError("--draft needs the chance that its tokens are accepted: --accept 0.8.")
    if asked.acceptance is not None and not asked.draft:
        raise InputError(
            "--accept is the chance that a token of a draft is accepted; name the draft: --draft hf:llama-3.1-8b."
        )


def _check_device_runs(weights: str, on: str | None) -> None:
    runs_in = packing_of(weights).runs_in
    if not runs_in or on is None:
        return
    ceilings = named_ceilings(on)
    if not ceilings.peak(runs_in):
        known = ", ".join(f"{dtype} {units.rate(rate)}" for dtype, rate in ceilings.flops.items() if "/" not in dtype)
        raise InputError(
            f"{ceilings.name} has no {weights} products, only {known}: take --weights int8 or int4, which are unpacked into the model's "
            f"own dtype, or a device that has them, like h100-sxm."
        )


def generate_tokens(target: Target, served: Served, *, repeats: int) -> Generation:
    """The prompt of a loaded target, and new tokens after it."""
    from ..engine.decoding import generation, prompt_of

    prompt = prompt_of(target)
    with users_code(target.text, described(target.args, target.kwargs)):
        return generation(target.model.eval(), prompt, **asdict(served), repeats=repeats)
