"""generation(): the prefill of a model that generates, and its decoding of new tokens, counted and timed apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from .. import units
from ..capture.model.model_run import ModelRun
from ..capture.model.positions import check_positions
from ..capture.model.tensors import tensors_in
from ..capture.time.clock import clock_for
from ..capture.twin.meta_copy import on_meta
from ..errors import InputError, whole_number
from ..results.profile import Profile
from ..results.timings import Stat
from .counting import Recording, kept
from .run_profile import Options

CACHES = ("dynamic", "static")
CACHE_NAMES = ("past_key_values", "cache_params")
"""What a forward calls its keys and values, or its states."""


@dataclass(frozen=True)
class Generation:
    """What a prompt and the tokens after it cost, apart."""

    prefill: Profile
    """The prompt, in one forward; of an encoder-decoder, the encoder and the decoder's first token."""
    decode: Profile
    """All new tokens together, one forward each."""
    batch: int
    prompt: int
    """Tokens in each prompt; of an encoder-decoder, the positions that its encoder hands on."""
    new_tokens: int
    """Tokens decoded after each prompt."""
    cache: str
    prompt_cache_bytes: int
    """Keys, values and states kept after the prompt; a static cache is allocated for all tokens at once."""
    cache_bytes: int
    """Keys, values and states kept after the last token."""
    growing_bytes: int
    """Of those, the keys and values of the tokens that were decoded or prompted; a state does not grow with them."""
    grown_bytes: int
    """Of those, what the new tokens keep; a static cache has had the place from the beginning, a full window keeps no more."""
    held: int
    """Tokens of each sequence that the decoder has seen at the end."""
    prefill_time: Stat | None = None
    decode_time: Stat | None = None
    """Seconds of all new tokens together."""

    @property
    def macs_per_token(self) -> float:
        """MACs of decoding one token of one sequence, the mean over the new tokens."""
        return self.decode.macs / (self.new_tokens * self.batch)

    @property
    def flops_per_token(self) -> float:
        """FLOPs of decoding one token of one sequence, the mean over the new tokens."""
        return self.decode.flops / (self.new_tokens * self.batch)

    @property
    def cache_bytes_per_token(self) -> float:
        """Bytes of keys and values that one more token of one sequence keeps, the mean over the new tokens.

        None where there is only a state, and none of a layer whose sliding window is full.
        """
        return self.grown_bytes / self.new_tokens / self.batch

    @property
    def decode_tokens_per_second(self) -> float | None:
        """New tokens of all sequences per second."""
        return self.batch * self.new_tokens / self.decode_time.median if self.decode_time else None

    @property
    def prefill_tokens_per_second(self) -> float | None:
        """Tokens of all prompts per second."""
        return self.batch * self.prompt / self.prefill_time.median if self.prefill_time else None

    def __str__(self) -> str:
        """Prefill and decode side by side."""
        return draw_generation(self)


def generation(
    model: nn.Module,
    input_ids: torch.Tensor,
    new_tokens: int,
    *,
    cache: str = "dynamic",
    repeats: int = 3,
    latency: bool = True,
) -> Generation:
    """Count, and time where the model is not on meta, the prompt and the decoding of tokens after it.

    `model` is one of transformers that generates. `input_ids` are the prompts, all of one length; for an encoder-decoder
    they are what its encoder takes, also sound or an image. `new_tokens` are decoded one by one with a `cache` that grows
    ("dynamic") or has its full length from the beginning ("static"); a state-space model keeps a state instead. The tokens
    themselves are arbitrary: what they cost does not depend on them. `repeats` whole generations are timed unless `latency`
    is false.
    """
    whole_number("new_tokens", new_tokens, 1)
    whole_number("repeats", repeats, 1)
    if cache not in CACHES:
        raise InputError(f"cache must be {' or '.join(map(repr, CACHES))}, not {cache!r}.")
    check_generates(model)
    check_positions(type(model).__name__, model, {"input_ids": input_ids}, new_tokens)
    loop = (_EncodedLoop if is_encoder_decoder(model) else _Loop)(model, input_ids, new_tokens, cache)
    run = ModelRun(model, (), loop.inputs)
    with torch.no_grad(), kept(run):
        kv = loop.new_cache()
        prefill = _counted(run, lambda: loop.prefill(kv))
        after_prompt = cache_bytes(kv)
        step = ModelRun(model, (), {"input_ids": loop.token})
        decode = replace(_counted(step, lambda: loop.decode(kv)), tokens=input_ids.shape[0] * new_tokens)
        after_all, growing = cache_bytes(kv), growing_bytes(kv)
        grown = after_all - after_prompt if cache == "dynamic" else filled_bytes(kv, loop.held - new_tokens, loop.held)
        times = loop.timed(repeats) if latency and run.device.type != "meta" else (None, None)
    sizes = (input_ids.shape[0], loop.prompt, new_tokens, cache, after_prompt, after_all, growing, grown, loop.held)
    return Generation(prefill, decode, *sizes, *times)


def is_encoder_decoder(model: nn.Module) -> bool:
    """Whether an encoder reads what a decoder then writes about."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def check_generates(model: Any) -> None:
    """Refuse a model that does not write one token after another."""
    can_generate = getattr(model, "can_generate", lambda: False)()
    if not can_generate or _cache_name(model) is None:
        raise InputError(
            f"{type(model).__name__} cannot generate token by token: that needs a model of transformers with a vocabulary "
            f"head, whose forward takes {' or '.join(CACHE_NAMES)}."
        )


def _cache_name(model: nn.Module) -> str | None:
    takes = inspect.signature(model.forward).parameters
    return next((name for name in CACHE_NAMES if name in takes), None)


class _Loop:
    """One generation: the prompt, then one forward for each new token."""

    def __init__(self, model: nn.Module, prompt: torch.Tensor, new_tokens: int, cache: str) -> None:
        self._model, self._prompt, self._new_tokens, self._cache = model, prompt, new_tokens, cache
        self._cache_name = _cache_name(model) or ""
        token = torch.ones((prompt.shape[0], 1), dtype=torch.int64, device="cpu")
        self.token: torch.Tensor = on_meta(token) if prompt.is_meta else token.to(prompt.device)

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What the first forward takes."""
        return {"input_ids": self._prompt}

    @property
    def prompt(self) -> int:
        """Tokens in each prompt."""
        return self._prompt.shape[1]

    @property
    def held(self) -> int:
        """Tokens of each sequence that the decoder sees in the end."""
        return self.prompt + self._new_tokens

    def new_cache(self) -> Any:
        """An empty cache of keys and values, or of states."""
        return self._empty_cache(self._model.config, self.held)

    def _empty_cache(self, config: Any, length: int) -> Any:
        import transformers

        if self._cache == "dynamic":
            return transformers.DynamicCache(config=config)
        return transformers.StaticCache(config=config, max_cache_len=length)

    def prefill(self, cache: Any) -> None:
        """One forward over the prompt; only the last position's logits are needed."""
        last = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(self._model.forward).parameters else {}
        self._model(**self.inputs, **{self._cache_name: cache}, use_cache=True, **last)

    def decode(self, cache: Any) -> None:
        """One forward for each new token."""
        for _ in range(self._new_tokens):
            self._next(cache)

    def _next(self, cache: Any) -> None:
        self._model(input_ids=self.token, **{self._cache_name: cache}, use_cache=True)

    def timed(self, repeats: int) -> tuple[Stat, Stat]:
        """Seconds of prefill and decode, after the counted run has warmed the model up."""
        clock = clock_for(self._prompt.device)
        prefills, decodes = [], []
        for _ in range(repeats):
            cache = self.new_cache()
            prefills.append(_seconds(clock, partial(self.prefill, cache)))
            decodes.append(_seconds(clock, partial(self.decode, cache)))
        return Stat(tuple(prefills)), Stat(tuple(decodes))


class _EncodedLoop(_Loop):
    """The encoder once, with the decoder's first token; then one forward of the decoder for each new token."""

    _encoded: torch.Tensor

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What the encoder takes, and the token that the decoder begins with."""
        return {str(self._model.main_input_name): self._prompt, "decoder_input_ids": self.token}

    @property
    def prompt(self) -> int:
        """Positions that the encoder hands on; known after the prefill."""
        return self._encoded.shape[1]

    @property
    def held(self) -> int:
        """The first token and the new ones."""
        return 1 + self._new_tokens

    def new_cache(self) -> Any:
        """Keys and values of the decoder's own tokens, and of the encoder's; the latter take their length as it comes."""
        import transformers

        config: Any = self._model.config
        own = self._empty_cache(config.get_text_config(decoder=True), self.held)
        return transformers.EncoderDecoderCache(own, transformers.DynamicCache())

    def prefill(self, cache: Any) -> None:
        """The encoder, and the decoder's first token, which also makes the keys and values of what was encoded."""
        output = self._model(**self.inputs, past_key_values=cache, use_cache=True)
        self._encoded = output.encoder_last_hidden_state

    def _next(self, cache: Any) -> None:
        from transformers.modeling_outputs import BaseModelOutput

        encoded = BaseModelOutput(last_hidden_state=self._encoded)
        self._model(encoder_outputs=encoded, decoder_input_ids=self.token, past_key_values=cache, use_cache=True)


def _seconds(clock: Any, work: Callable[[], None]) -> float:
    clock.wait()
    begun = clock.now()
    work()
    clock.wait()
    return float(clock.now() - begun)


def _counted(run: ModelRun, work: Callable[[], None]) -> Profile:
    target = "meta" if run.device.type == "meta" else None
    with Recording(run.model, Options(run=run, memory=True, target=target)) as recording:
        work()
    return recording.profile


def cache_bytes(cache: Any) -> int:
    """Bytes of the keys, values and states that a cache holds."""
    return _bytes([list(vars(layer).values()) for layer in _layers(cache)])


def growing_bytes(cache: Any) -> int:
    """Bytes of the keys and values of the tokens that a decoder has seen, without states and what was encoded."""
    layers = _layers(getattr(cache, "self_attention_cache", cache))
    return _bytes([[getattr(layer, name, None) for name in ("keys", "values")] for layer in layers])


def filled_bytes(cache: Any, before: int, after: int) -> int:
    """Bytes that a cache of fixed length fills when a sequence grows from some tokens to more, each layer up to its length."""
    total = 0
    for layer in _layers(getattr(cache, "self_attention_cache", cache)):
        kept = [getattr(layer, name, None) for name in ("keys", "values")]
        for tensor in tensors_in(kept):
            length = tensor.shape[-2]
            total += tensor.numel() * tensor.element_size() // length * (min(after, length) - min(before, length))
    return total


def _layers(cache: Any) -> list[Any]:
    if hasattr(cache, "self_attention_cache"):
        return [*_layers(cache.self_attention_cache), *_layers(cache.cross_attention_cache)]
    return getattr(cache, "layers", None) or [cache]


def _bytes(values: list[Any]) -> int:
    found = {id(tensor): tensor for tensor in tensors_in(values)}
    return sum(tensor.numel() * tensor.element_size() for tensor in found.values() if tensor.is_floating_point())


def draw_generation(made: Generation) -> str:
    """Prefill and decode side by side, and what a step of the batch and a token cost; then the cache."""
    steps, tokens = made.new_tokens, made.new_tokens * made.batch

    def row(name: str, prefill: float, decode: float, write: Callable[[float], str]) -> tuple[str, ...]:
        return name, write(prefill), write(decode), write(decode / steps), write(decode / tokens)

    each, write = made.cache_bytes_per_token, units.size
    held = (write(made.prompt_cache_bytes), write(made.cache_bytes), write(each * made.batch), write(each))
    rows = [
        ("", "prefill", "decode", "per step", "per token"),
        ("tokens", units.count(made.prompt * made.batch), units.count(tokens), units.count(made.batch), "1"),
        row("MACs", made.prefill.macs, made.decode.macs, units.si),
        row("FLOPs", made.prefill.flops, made.decode.flops, units.si),
        row("bytes moved", made.prefill.forward.bytes, made.decode.forward.bytes, units.size),
        ("KV cache" if made.growing_bytes else "state", *held),
    ]
    if made.prefill.peak_bytes is not None and made.decode.peak_bytes is not None:
        rows.append(("peak memory", units.size(made.prefill.peak_bytes), units.size(made.decode.peak_bytes), "", ""))
    if made.prefill_time is not None and made.decode_time is not None:
        fast, slow = made.prefill_tokens_per_second or 0.0, made.decode_tokens_per_second or 0.0
        rows.append(row("time", made.prefill_time.median, made.decode_time.median, units.seconds))
        rows.append(("tokens/s", f"{fast:,.1f}", f"{slow:,.1f}", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
    prompted = "tokens of prompt" if made.held == made.prompt + made.new_tokens else "positions encoded"
    said = f"{made.batch} x {made.prompt:,} {prompted}, {made.new_tokens:,} new, {made.cache} cache"
    one = "" if made.batch == 1 else f"\nA step decodes one token of each of the {made.batch} sequences."
    return "\n".join([said + one, "", *lines])
