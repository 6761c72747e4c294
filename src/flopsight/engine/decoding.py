"""generation(): the prefill of a model that generates, and its decoding of new tokens, counted and timed apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from ..analysis.packed import packed
from ..capture.hooks import internals
from ..capture.model.model_run import ModelRun
from ..capture.model.positions import check_positions, positions_of
from ..capture.time.clock import clock_for
from ..errors import InputError, whole_number
from ..results.generation import Draft, Generation, Step
from ..results.kv_cache import CACHES, DYNAMIC, KV_CACHE, KV_COPIES
from ..results.packing import packing_of
from ..results.profile import Profile
from ..results.timings import Stat
from ..targets.code import imports_put_back
from ..targets.inputs import TensorSpec
from ..targets.loading import Target, load_target
from .counting import Recording, kept
from .decode_loop import (
    IDS,
    DecodeLoop,
    EncodedLoop,
    cache_tensors,
    check_generates,
    describe_cache,
    is_encoder_decoder,
    prompt_name,
    samples,
)
from .packed_weights import packed_sizes
from .run_profile import Options

LENGTH = 4
"""Tokens that are drafted in a round if nothing is said."""


@imports_put_back()
def generation(
    model: nn.Module | str,
    input_ids: torch.Tensor | None = None,
    new_tokens: int = 256,
    *,
    input_shape: Sequence[int] | None = None,
    cache: str = DYNAMIC,
    weights: str | None = None,
    draft: nn.Module | str | None = None,
    acceptance: float | None = None,
    draft_length: int = LENGTH,
    repeats: int = 3,
    latency: bool = True,
) -> Generation:
    """Count, and time if the model is not on meta, the prompt and the decoding of tokens after it.

    `model` is one of transformers that generates, or a target as on the command line, `"hf:llama-3.1-8b"`, which is built
    without data. `input_ids` are the prompts, all of one length, or `input_shape` their size; an encoder-decoder takes what
    its encoder takes, also sound or an image. `new_tokens` are decoded one by one with a `cache` that grows ("dynamic") or
    has its full length from the beginning ("static"); a state-space model keeps a state instead. The tokens themselves are
    arbitrary: what they cost does not depend on them. `repeats` whole generations are timed unless `latency` is false.

    `weights` counts the model as if its matrices were packed: "int8", "int4" ("int4:32" for groups of 32) or "fp8". `draft` is a
    smaller model for speculative decoding: it proposes `draft_length` tokens a round, each accepted with the chance `acceptance`.
    """
    whole_number("new_tokens", new_tokens, 1)
    whole_number("repeats", repeats, 1)
    if cache not in CACHES:
        raise InputError(f"cache must be {' or '.join(map(repr, CACHES))}, not {cache!r}.")
    _check_prompts(input_ids, input_shape)
    packing = packing_of(weights) if weights else None
    if draft is not None or acceptance is not None:
        check_draft(draft, acceptance, draft_length)
    with _prompted(model, input_ids, input_shape) as (found, prompt):
        _check_tokens(found, prompt)
        check_positions(type(found).__name__, found, {"input_ids": prompt}, new_tokens)
        kind = EncodedLoop if is_encoder_decoder(found) else DecodeLoop
        made = _generated(kind(found, prompt, new_tokens, cache), repeats if latency and packing is None else 0)
        if packing is not None:
            made = packed(made, packing, packed_sizes(found, packing))
        if draft is None:
            return made
        with _prompted(draft, None, tuple(prompt.shape)) as (smaller, ids):
            check_vocabulary(found, smaller)
            check_positions(type(smaller).__name__, smaller, {"input_ids": ids}, new_tokens)
            drafted = _generated(DecodeLoop(smaller, ids, new_tokens, cache), 0)
        return with_draft(made, drafted, acceptance or 0.0, draft_length)


def generate_target(target: Target, new_tokens: int, **how: Any) -> Generation:
    """The prompt of a loaded target, and new tokens after it."""
    prompt = prompt_of(target)
    with target.calling():
        return generation(target.model.eval(), prompt, new_tokens, **how)


def prompt_of(target: Target) -> torch.Tensor:
    """The prompt among the inputs of a target that generates."""
    check_generates(target.model)
    name = prompt_name(target.model)
    prompt = target.kwargs.get(name, target.args[0] if target.args else None)
    if prompt is None or (name == IDS and prompt.dim() != 2):
        raise InputError(f"A generation needs a prompt of token ids: -i input_ids=1x512:int64, for {target.text}.")
    found: torch.Tensor = prompt
    return found


def _check_prompts(input_ids: Any, input_shape: Sequence[int] | None) -> None:
    """Refuse prompts that are not a tensor, sizes that are not numbers, and both at once."""
    if input_ids is not None and input_shape is not None:
        raise InputError("Give the prompts as input_ids, or their size as input_shape, not both.")
    if input_ids is not None and not isinstance(input_ids, torch.Tensor):
        raise InputError(f"input_ids is a tensor of token ids, batch x tokens, not {type(input_ids).__name__}.")
    if input_shape is None:
        return
    if isinstance(input_shape, str) or not isinstance(input_shape, Sequence):
        raise InputError(f"input_shape is the size of the prompts, like (1, 512), not {input_shape!r}.")
    for size in input_shape:
        whole_number("Every number of input_shape", size, 0)


def _check_tokens(model: nn.Module, prompt: torch.Tensor) -> None:
    """Refuse prompts that are not rows of token ids, for a model that takes these, or that are empty."""
    size = "x".join(map(str, prompt.shape))
    if prompt_name(model) == IDS and (prompt.dim() != 2 or prompt.is_floating_point()):
        raise InputError(
            f"The prompts are {size} {str(prompt.dtype).removeprefix('torch.')}: token ids are batch x tokens, as 1x512 int64."
        )
    if not prompt.numel():
        raise InputError(f"The prompts are {size}: a generation needs at least one sequence of one token, as 1x1.")


@contextmanager
def _prompted(
    model: nn.Module | str, input_ids: torch.Tensor | None, input_shape: Sequence[int] | None
) -> Iterator[tuple[nn.Module, torch.Tensor]]:
    """The model and its prompt; a model that is given by its name is built on meta."""
    if isinstance(model, str):
        specs = [TensorSpec(tuple(input_shape))] if input_shape is not None else []
        target = load_target(model, specs, meta=True, generates=True)
        own = prompt_of(target)
        with target.calling():
            yield target.model.eval(), own if input_ids is None else input_ids.to("meta")
        return
    check_generates(model)
    if input_ids is None:
        if input_shape is None:
            raise InputError("generation() needs a prompt: input_ids, or its size as input_shape=(1, 512).")
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        input_ids = torch.ones(tuple(input_shape), dtype=torch.int64, device=device)
    yield model, input_ids


def _generated(loop: DecodeLoop, repeats: int) -> Generation:
    run = ModelRun(loop.model, (), loop.inputs)
    batch, new_tokens = loop.token.shape[0], loop.new_tokens
    with torch.no_grad(), kept(run):
        kv = loop.new_cache()
        prefill = _counted(run, partial(loop.prefill, kv), kv)
        steps = _steps(loop, kv)
        times = _timed(loop, repeats) if repeats and run.device.type != "meta" else (None, None)
        sampled = samples(loop, prefill, partial(_sample, loop))
        described_cache = describe_cache(kv, loop.kind, batch, loop.seen + new_tokens)
    positions = positions_of(loop.model)
    return Generation(
        prefill, steps, batch, loop.prompt, new_tokens, loop.seen, described_cache, positions, sampled, *times
    )  # fmt: skip


def _sample(loop: DecodeLoop, batch: int, tokens: int | None) -> tuple[Profile, Profile]:
    """The prefill and the first step of other sizes."""
    other = loop.sized(batch, tokens)
    kv = other.new_cache()
    prefill = _counted(ModelRun(other.model, (), other.inputs), partial(other.prefill, kv), kv)
    return prefill, _counted(ModelRun(other.model, (), {"input_ids": other.token}), partial(other.step, kv), kv)


def _steps(loop: DecodeLoop, after_prompt: Any) -> tuple[Step, ...]:
    """The first, the middle and the last step; more if their work does not lie on a line, as when a window fills up.

    The work of a step grows with the tokens before it, and slower when a window is full. Such a sum is concave, so if it is
    on a line at three places, it is on that line between them.
    """
    run = ModelRun(loop.model, (), {"input_ids": loop.token})
    last = loop.new_tokens - 1
    found = {0: _counted(run, partial(loop.step, after_prompt), after_prompt)}

    def count(number: int) -> None:
        if number not in found:
            cache = loop.new_cache()
            _run_uncounted(run, partial(loop.prefill, cache, number))
            found[number] = _counted(run, partial(loop.step, cache), cache)

    def look_between(begin: int, end: int) -> None:
        middle = (begin + end) // 2
        count(middle)
        left, right = found[middle].macs - found[begin].macs, found[end].macs - found[middle].macs
        if left * (end - middle) != right * (middle - begin):
            look_between(begin, middle)
            look_between(middle, end)

    count(last)
    look_between(0, last)
    return tuple(Step(number, found[number]) for number in sorted(found))


def _run_uncounted(run: ModelRun, work: Callable[[], None]) -> None:
    """Run a forward that is not counted; one on meta needs what a recording does for it."""
    if run.device.type != "meta":
        work()
        return
    with Recording(run.model, Options(run=run, target="meta")):
        work()


def _counted(run: ModelRun, work: Callable[[], None], cache: Any) -> Profile:
    """The profile of one forward; what the cache holds before and after it is a kind of memory of its own."""
    target = "meta" if run.device.type == "meta" else None
    with Recording(run.model, Options(run=run, memory=True, target=target)) as recording:
        live = recording.tape.live
        assert live is not None
        live.leave_out({KV_CACHE: cache_tensors(cache)})
        work()
        held = cache_tensors(cache)
        for tensor in held:
            live.label(tensor, KV_CACHE)
    sizes = {internals.storage_key(tensor): tensor.untyped_storage().nbytes() for tensor in held}
    return _copies_apart(recording.profile, sum(sizes.values()))


def _copies_apart(profile: Profile, held: int) -> Profile:
    """The profile with copies of the cache as a kind of their own: a cache that grows is there twice while it is copied."""
    copies = profile.at_peak.get(KV_CACHE, 0) - held
    return replace(profile, at_peak={**profile.at_peak, KV_CACHE: held, KV_COPIES: copies}) if copies > 0 else profile


def _timed(loop: DecodeLoop, repeats: int) -> tuple[Stat, Stat]:
    """Seconds of prefill and decode, after the counted run has warmed the model up."""
    clock = clock_for(loop.token.device)
    prefills, decodes = [], []
    for _ in range(repeats):
        cache = loop.new_cache()
        prefills.append(_seconds(clock, partial(loop.prefill, cache)))
        decodes.append(_seconds(clock, partial(loop.decode, cache)))
    return Stat(tuple(prefills)), Stat(tuple(decodes))


def _seconds(clock: Any, work: Callable[[], None]) -> float:
    clock.wait()
    begun = clock.now()
    work()
    clock.wait()
    return float(clock.now() - begun)


# -- the draft of speculative decoding: counted at the same prompts as the model that checks it


def check_draft(draft: object, acceptance: float | None, length: int) -> None:
    """Refuse a chance that is not one, or is that of no draft, and a draft without tokens."""
    if draft is None:
        raise InputError("acceptance is the chance that a token of a draft is accepted; give draft='hf:llama-3.1-8b'.")
    if acceptance is None:
        raise InputError("A draft needs the chance that its tokens are accepted: acceptance=0.8 (--accept 0.8).")
    if isinstance(acceptance, bool) or not isinstance(acceptance, int | float) or not 0 <= acceptance <= 1:
        raise InputError(f"acceptance is a chance from 0 to 1, not {acceptance!r}.")
    whole_number("draft_length", length, 1)


def check_vocabulary(model: nn.Module, draft: nn.Module) -> None:
    """Refuse a draft that writes other tokens."""
    words = [_vocabulary(one) for one in (model, draft)]
    if None not in words and words[0] != words[1]:
        raise InputError(
            f"{type(draft).__name__} cannot draft for {type(model).__name__}: it has {words[1]:,} tokens and the other "
            f"{words[0]:,}. A draft needs the same vocabulary."
        )


def with_draft(made: Generation, drafted: Generation, acceptance: float, length: int) -> Generation:
    """The generation with a draft, which was counted at the same prompts."""
    if made.seen != made.prompt:
        raise InputError("An encoder-decoder is not drafted for here; leave out the draft.")
    return replace(made, draft=Draft(drafted, float(acceptance), length))


def _vocabulary(model: Any) -> int | None:
    config = getattr(model, "config", None)
    size = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    return size if isinstance(size, int) else None
