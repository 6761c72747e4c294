"""`flopsight profile --generate`: a prompt and the tokens after it, counted and timed apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..targets.inputs import described
from ..targets.users import users_code

if TYPE_CHECKING:
    from ..results.generation import Generation
    from ..targets.loading import Target


def generate_tokens(target: Target, new_tokens: int, *, cache: str, repeats: int) -> Generation:
    """The prompt of a loaded target, and new tokens after it."""
    from ..engine.decoding import generation, prompt_of

    prompt = prompt_of(target)
    with users_code(target.text, described(target.args, target.kwargs)):
        return generation(target.model.eval(), prompt, new_tokens, cache=cache, repeats=repeats)
