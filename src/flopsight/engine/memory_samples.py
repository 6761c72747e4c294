"""Which other batches and prompts of a generation are counted, so that its peaks are known at any size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ..capture.model.positions import positions_of
from ..results.generation import Sample
from ..results.profile import Profile
from .decode_loop import DecodeLoop, is_encoder_decoder

FAR = 64
"""Times the batch that are counted on meta."""
LONG = 1 << 16
"""Tokens that are counted on meta if a model's positions have no end."""


def samples(
    loop: DecodeLoop, prefill: Profile, counted: Callable[[int, int | None], tuple[Profile, Profile]]
) -> tuple[Sample, ...]:
    """Peaks of half of each prompt and of other batches; on meta, where sizes cost nothing, of the largest ones too.

    Between two sizes the peak may move, as from a product to scores of all pairs, so two near ones and two far ones are taken.
    A model that calls more ops for more tokens, one after the other, is spared the far ones.
    """
    found: list[Sample] = []

    def take(batch: int, tokens: int | None) -> Profile | None:
        # a model may refuse a size that its user did not ask for
        with suppress(Exception):
            first, step = counted(batch, tokens)
            found.append(Sample(batch, tokens or loop.prompt, first.at_peak, step.at_peak))
            return first
        return None

    half = take(loop.batch, loop.prompt // 2) if _takes_tokens(loop) and loop.prompt > 1 else None
    if not loop.token.is_meta:
        if loop.batch > 1:
            take(loop.batch // 2, None)
        return tuple(found)
    take(2 * loop.batch, None)
    if half is None or 2 * _calls(prefill) < 3 * _calls(half):
        for times in (FAR // 2, FAR):
            take(times * loop.batch, None)
        longest = (positions_of(loop.model) or max(LONG, FAR * loop.prompt)) - loop.new_tokens
        # odd numbers: kernels of attention copy a mask whose rows are not aligned
        for tokens in (longest // 2, longest - 1) if half is not None and longest > loop.prompt else ():
            take(loop.batch, tokens | 1)
    return tuple(found)


def _calls(profile: Profile) -> int:
    """Calls of ops that work."""
    return sum(profile.coverage.counted.values())


def _takes_tokens(loop: DecodeLoop) -> bool:
    """Whether prompts can have any number of tokens: an encoder may take sound or an image, whose size is fixed."""
    return not is_encoder_decoder(loop.model) or str(loop.model.main_input_name) == "input_ids"
