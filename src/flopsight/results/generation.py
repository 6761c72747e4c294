"""What a prompt and the tokens after it cost: a value that answers what serving takes on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .. import units
from .in_notebooks import Shown
from .kv_cache import NO_CACHE, KVCache
from .profile import Profile
from .read_only import FixedTables
from .timings import Stat

if TYPE_CHECKING:
    from ..analysis.serving import Serving
    from ..analysis.speculation import Speculation


@dataclass(frozen=True)
class Step:
    """One forward of the decoder, counted: one token of each sequence."""

    number: int
    """Which of the new tokens it makes, from 0 on."""
    profile: Profile


@dataclass(frozen=True)
class Sample(FixedTables):
    """Bytes by kind at the peaks of another batch, or of other prompts: two of each show how memory grows."""

    batch: int
    prompt: int
    prefill: Mapping[str, int]
    """At the peak of the prompts."""
    step: Mapping[str, int]
    """At the peak of the first step after them."""


@dataclass(frozen=True)
class Draft:
    """A smaller model that proposes tokens, which the model then checks in one forward."""

    made: Generation
    acceptance: float
    """The chance that a proposed token is accepted."""
    length: int
    """Tokens that are proposed in a round."""


@dataclass(frozen=True, repr=False)
class Generation(Shown):
    """What a prompt and the tokens after it cost, apart. `device` is a name that `flopsight device` knows, else the model's own."""

    prefill: Profile
    """The prompt, in one forward; of an encoder-decoder, the encoder and the decoder's first token."""
    steps: tuple[Step, ...]
    """Steps of the decoding: the first, the middle and the last, and others in between if the costs do not lie on a line."""
    batch: int
    """Sequences that are generated side by side."""
    prompt: int
    """Tokens in each prompt; of an encoder-decoder, the positions that its encoder hands on."""
    new_tokens: int
    """Tokens decoded after each prompt."""
    seen: int
    """Tokens of each sequence that the decoder has seen after the prefill."""
    kv: KVCache = NO_CACHE
    """The cache of keys and values: its layers and their bytes."""
    positions: int | None = None
    """Tokens that the model has positions for."""
    samples: tuple[Sample, ...] = ()
    """Peaks of other sizes: half of each prompt, and if the model is on meta also far more tokens and sequences."""
    prefill_time: Stat | None = None
    """Seconds of the prefill, if the model was timed."""
    decode_time: Stat | None = None
    """Seconds of all new tokens together."""
    weights: str = ""
    """How weights are packed, `int8`, `int4` or `fp8`; empty if they are as the model has them."""
    draft: Draft | None = None
    """The draft of speculative decoding."""

    @cached_property
    def decode(self) -> Profile:
        """All steps of the decoding together."""
        from ..analysis.decoded import all_steps

        return all_steps(self)

    @property
    def first(self) -> Profile:
        """The step that makes the first new token."""
        return self.steps[0].profile

    @property
    def middle(self) -> Profile:
        """The step that makes the token in the middle."""
        return next(step.profile for step in self.steps if step.number == (self.new_tokens - 1) // 2)

    @property
    def last(self) -> Profile:
        """The step that makes the last new token."""
        return self.steps[-1].profile

    @property
    def held(self) -> int:
        """Tokens of each sequence that the decoder has seen at the end."""
        return self.seen + self.new_tokens

    @property
    def cache(self) -> str:
        """`dynamic` or `static`."""
        return self.kv.kind

    @property
    def prompt_cache_bytes(self) -> int:
        """Keys, values and states kept after the prompt; a static cache is allocated for all tokens at once."""
        return self.batch * self.kv.bytes_at(self.seen if self.cache == "dynamic" else self.held)

    @property
    def cache_bytes(self) -> int:
        """Keys, values and states kept after the last token."""
        return self.batch * self.kv.bytes_at(self.held)

    @property
    def cache_bytes_per_token(self) -> float:
        """Bytes of keys and values that one more token of one sequence keeps, the mean over the new tokens.

        None if there is only a state, and none of a layer whose sliding window is full.
        """
        return (self.kv.bytes_at(self.held) - self.kv.bytes_at(self.seen)) / self.new_tokens

    @property
    def active_params(self) -> int | None:
        """Parameters that one token passes; None if that is not known."""
        return self.last.active_params

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights that a step of the batch reads, of experts the number that is expected to be chosen."""
        return self.serving().weight_bytes

    @property
    def macs_per_token(self) -> float:
        """MACs of decoding one token of one sequence, the mean over the new tokens."""
        return self.decode.macs / (self.new_tokens * self.batch)

    @property
    def flops_per_token(self) -> float:
        """FLOPs of decoding one token of one sequence, the mean over the new tokens."""
        return self.decode.flops / (self.new_tokens * self.batch)

    @property
    def decode_tokens_per_second(self) -> float | None:
        """New tokens of all sequences per second, measured."""
        return self.batch * self.new_tokens / self.decode_time.median if self.decode_time else None

    @property
    def prefill_tokens_per_second(self) -> float | None:
        """Tokens of all prompts per second, measured."""
        return self.batch * self.prompt / self.prefill_time.median if self.prefill_time else None

    def serving(self, device: str | None = None) -> Serving:
        """The least times and what fits, on `device`."""
        from ..analysis.serving import Serving

        return Serving(self, device)

    def first_token(self, device: str | None = None) -> float | None:
        """The least seconds until all sequences have their first token, on `device`; None if a peak that it takes is not known."""
        return self.serving(device).first_token

    def per_output_token(self, device: str | None = None, at: str = "mean") -> float | None:
        """The least seconds of a step on `device`, which makes one token of each sequence; `at` is "mean", "first", "middle" or "last"."""
        return self.serving(device).per_output_token(at)

    def tokens_per_second(self, device: str | None = None) -> float | None:
        """The most new tokens a second on `device`, all sequences of the batch together."""
        return self.serving(device).tokens_per_second

    def largest_batch(self, device: str | None = None) -> int | None:
        """The most sequences of this prompt and these new tokens that fit the memory of `device`; None if its size is not known."""
        return self.serving(device).largest_batch

    def longest_context(self, device: str | None = None) -> int | None:
        """The most tokens of a sequence, prompt and new ones, that fit the memory of `device` at this batch; None if its size is not known."""
        return self.serving(device).longest_context

    def crossover_batch(self, device: str | None = None) -> int | None:
        """The batch from which on compute binds a step of the decoding on `device`; None if none does."""
        return self.serving(device).crossover_batch

    def speculative(self, device: str | None = None, length: int | None = None) -> Speculation | None:
        """A round of speculative decoding on `device` with the draft, of its length or `length` tokens; None without a draft or a peak."""
        from ..analysis.speculation import speculate

        return speculate(self.serving(device), length)

    def to_html(self, path: str | Path, *, on: str | None = None) -> Path:
        """Write the page to `path` as a file that needs nothing beside it; `on` names a device for the least times."""
        from ..files.whole_files import write_text
        from ..render.generation_page import html

        return write_text(path, html(self, on=on))

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<Generation of {self.prefill.root.kind}: {self.batch} x {self.prompt:,} tokens of prompt, "
            f"{self.new_tokens:,} new, {units.si(self.macs_per_token)} MACs a token>"
        )

    def __str__(self) -> str:
        return super().__str__().rstrip("\n")
