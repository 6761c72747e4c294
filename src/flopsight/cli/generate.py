"""`flopsight profile --generate`: a prompt and the tokens after it, counted and timed apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files.whole_files import write_bytes
from ..targets.inputs import described
from ..targets.users import users_code
from .views import View

if TYPE_CHECKING:
    from ..engine.decoding import Generation
    from ..targets.loading import Target


def generate_tokens(target: Target, new_tokens: int, *, cache: str, repeats: int) -> Generation:
    """The prompt of a loaded target, and new tokens after it."""
    from ..engine.decoding import check_generates, generation, is_encoder_decoder

    check_generates(target.model)
    name = str(target.model.main_input_name) if is_encoder_decoder(target.model) else "input_ids"
    prompt = target.kwargs.get(name, target.args[0] if target.args else None)
    if prompt is None or (name == "input_ids" and prompt.dim() != 2):
        raise InputError(f"--generate needs a prompt of token ids: -i input_ids=1x512:int64, for {target.text}.")
    with users_code(target.text, described(target.args, target.kwargs)):
        return generation(target.model.eval(), prompt, new_tokens, cache=cache, repeats=repeats)


def present_generation(made: Generation, view: View) -> None:
    """Print both parts side by side and the tree of the decoding; files get `.prefill` and `.decode` before their suffix."""
    prefill, decode = _named(view, "prefill"), _named(view, "decode")
    for path, contents in [*prefill.drawn(made.prefill), *decode.drawn(made.decode)]:
        write_bytes(path, contents)
    print(made)
    print("\nDecoding, module by module:\n")
    decode.print_profile(made.decode)
    prefill.say_saved()
    decode.say_saved()


def _named(view: View, part: str) -> View:
    """The view with `.prefill` or `.decode` in the names of its files."""
    files = tuple((path.with_suffix(f".{part}{path.suffix}"), drawing) for path, drawing in view.files)
    return replace(view, files=files)
