"""What serving a model takes on a device: the least times, what binds them, and what fits the memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ..errors import InputError
from ..hardware.kernel_shares import Shares, shared_ceilings, shares_of
from ..hardware.named import named_device
from ..results.generation import Generation
from ..results.kv_cache import STATIC
from ..results.profile import Profile
from .decoded import doubled_weights
from .limits.attended_pairs import needed_shares
from .limits.fused import served_seconds
from .limits.predict import predict
from .limits.roofline import COMPUTE, MEMORY, Roof, ceilings_for
from .limits.step_load import Load, load_of, mean_load
from .serving_memory import Peaks, lasting

MEAN, FIRST, MIDDLE, LAST = "mean", "first", "middle", "last"
PLACES = (MEAN, FIRST, MIDDLE, LAST)
MOST = 1 << 24
"""Batches and contexts above this are not looked for."""


class Serving:
    """A generation on one device: a named one, else the one that it ran on."""

    def __init__(self, made: Generation, device: str | None = None) -> None:
        self.made = made
        self.device = device
        self.ceilings = ceilings_for(made.last, device)
        self._peaks = Peaks(made)

    # -- times

    @cached_property
    def prefill_load(self) -> Load:
        """The prompt of the batch."""
        made = self.made
        tokens, kept = max(made.prompt, made.seen), made.kv.bytes_at(made.seen)
        needed = {}
        if made.kv.grows and made.seen == made.prompt:
            keys = made.held if made.kv.kind == STATIC else made.prompt + 1
            needed = needed_shares(made.prefill, made.first, made.batch * made.prompt, made.prompt, keys)
        return load_of(made.prefill, made.batch, tokens=tokens, cache_bytes=kept, needed=needed)

    @cached_property
    def _step_loads(self) -> dict[int, Load]:
        made = self.made
        return {
            step.number: load_of(step.profile, made.batch, cache_bytes=made.kv.bytes_moved(made.seen + step.number))
            for step in made.steps
        }

    def step_load(self, at: str = MEAN) -> Load:
        """A step of the decoding at a place among the new tokens."""
        loads, made = self._step_loads, self.made
        if at == MEAN:
            weights = doubled_weights(made.steps)
            return mean_load(list(zip(loads.values(), weights, strict=True)))
        places = {FIRST: 0, MIDDLE: (made.new_tokens - 1) // 2, LAST: made.new_tokens - 1}
        if at not in places:
            raise InputError(f"at must be {', '.join(map(repr, PLACES[:-1]))} or {LAST!r}, not {at!r}.")
        return loads[places[at]]

    def prefill_roof(self, batch: float | None = None) -> Roof | None:
        """The least seconds of the prompts."""
        return self.prefill_load.least(self.ceilings, batch or self.made.batch) if self.ceilings else None

    def step_roof(self, at: str = MEAN, batch: float | None = None) -> Roof | None:
        """The least seconds of a step of the batch."""
        load = self.step_load(at)
        return load.least(self.ceilings, batch or self.made.batch) if self.ceilings else None

    @property
    def first_token(self) -> float | None:
        """The least seconds until all sequences have their first token."""
        roof = self.prefill_roof()
        return roof.limit if roof else None

    def per_output_token(self, at: str = MEAN) -> float | None:
        """The least seconds of a step."""
        roof = self.step_roof(at)
        return roof.limit if roof else None

    @property
    def tokens_per_second(self) -> float | None:
        """The most new tokens a second of the batch."""
        seconds = self.per_output_token()
        return self.made.batch / seconds if seconds else None

    @property
    def weight_bytes(self) -> float:
        """Weights that a step of the batch reads."""
        return self.step_load().weight_bytes(self.made.batch)

    @cached_property
    def crossover_batch(self) -> int | None:
        """The batch from which on compute binds a step; None if none does, or if a peak is not known."""
        return self._crossover(self.step_load())

    @cached_property
    def weights_crossover(self) -> int | None:
        """The batch from which on compute binds the products with weights, whatever the cache takes."""
        return self._crossover(self.step_load().without_cache)

    def _crossover(self, load: Load) -> int | None:
        ceilings = self.ceilings
        if ceilings is None:
            return None

        def by_compute(batch: int) -> bool:
            roof = load.least(ceilings, batch)
            return roof is not None and bound_of(roof) == COMPUTE

        return first_true(by_compute)

    @cached_property
    def shares(self) -> Shares | None:
        """What kernels of a named device reach, by the table; None on this machine."""
        return shares_of(named_device(self.device)) if self.device is not None else None

    @cached_property
    def predicted_step(self) -> float | None:
        """Predicted seconds of a step, the mean over the new tokens."""
        return self.mean_of_steps(self.predicted)

    def mean_of_steps(self, seconds_of: Callable[[Profile], float | None]) -> float | None:
        """The mean of a figure over all steps, from those that were counted; None if one of them has none."""
        weights = doubled_weights(self.made.steps)
        found = [seconds_of(step.profile) for step in self.made.steps]
        known = [seconds * weight for seconds, weight in zip(found, weights, strict=True) if seconds is not None]
        return sum(known) / sum(weights) if len(known) == len(weights) else None

    def predicted(self, profile: Profile) -> float | None:
        """Seconds of a forward by the shares of their limits that ops reach; None if these are not known.

        On this machine: of the plain model, by what was measured here. On a named device: of a compiled one in a server, by
        the table of shares.
        """
        if self.ceilings is None:
            return None
        if self.shares is not None:
            return served_seconds(profile, shared_ceilings(self.ceilings, self.shares))
        found = predict(profile, self.ceilings)
        return found.step if found is not None else None

    # -- memory

    @property
    def memory(self) -> int | None:
        """Bytes of the device's memory."""
        return self.ceilings.memory if self.ceilings is not None else None

    @property
    def peak(self) -> int | None:
        """Bytes at the peak of prefill and decoding."""
        peaks = [profile.peak_bytes for profile in (self.made.prefill, self.made.last)]
        known = [peak for peak in peaks if peak is not None]
        drafted = int(self._draft_bytes(self.made.batch, self.made.prompt))
        return max(known) + drafted if len(known) == len(peaks) else None

    def _draft_bytes(self, batch: int, prompt: int) -> float:
        """What a draft holds: its weights, and a cache of every sequence."""
        if self.made.draft is None:
            return 0
        draft = self.made.draft.made
        return lasting(draft.prefill.at_peak) + batch * draft.kv.bytes_at(prompt + draft.new_tokens)

    @property
    def lasting(self) -> int:
        """Bytes that do not grow with the batch: parameters and buffers."""
        return lasting(self.made.prefill.at_peak)

    @property
    def largest_batch(self) -> int | None:
        """The most sequences that fit, with all prompts in one forward; 0 if not even one does."""
        return self._most(lambda batch: self._peak_at(batch, self.made.prompt))

    @property
    def largest_batch_in_turn(self) -> int | None:
        """The most sequences that fit if the prompts run one after the other and all decode together."""
        made = self.made

        def needed(batch: int) -> float:
            alone = self._prefill_bytes(1, made.prompt)
            return max(alone + (batch - 1) * made.kv.bytes_at(made.seen), self._decode_bytes(batch, made.prompt))

        return self._most(needed)

    @property
    def longest_context(self) -> int | None:
        """The most tokens of a sequence that fit at this batch, at most as many as the model has positions; 0 if none do."""
        return self._longest(self._peak_at)

    @property
    def longest_context_in_pieces(self) -> int | None:
        """The same if the prompt runs in pieces, so that its temporaries do not grow with it."""
        return self._longest(self._decode_bytes)

    def _longest(self, needed: Callable[[int, int], float]) -> int | None:
        made = self.made
        prompts = self._most(lambda prompt: needed(made.batch, prompt))
        if not prompts:
            return prompts
        tokens = prompts + made.new_tokens
        return tokens if made.positions is None else min(tokens, made.positions)

    def _most(self, needed: Callable[[int], float]) -> int | None:
        memory = self.memory
        if memory is None or self.peak is None:
            return None
        too_much = first_true(lambda size: needed(size) > memory)
        return MOST if too_much is None else too_much - 1

    def _peak_at(self, batch: int, prompt: int) -> float:
        """Bytes at the peak of another batch, or of other prompts."""
        return max(self._prefill_bytes(batch, prompt), self._decode_bytes(batch, prompt))

    def _prefill_bytes(self, batch: int, prompt: int) -> float:
        return self._peaks.prefill(batch, prompt) + self._draft_bytes(batch, prompt)

    def _decode_bytes(self, batch: int, prompt: int) -> float:
        return self._peaks.decode(batch, prompt) + self._draft_bytes(batch, prompt)


def bound_of(roof: Roof) -> str:
    """What most of the least time goes to."""
    return COMPUTE if 2 * roof.at_peak >= roof.limit else MEMORY


def first_true(holds: Callable[[int], bool]) -> int | None:
    """The least number from 1 on for which a condition holds that holds for all greater ones; None up to `MOST`."""
    high = 1
    while not holds(high):
        if high >= MOST:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
