"""The forwards of a generation with a model of transformers: the prompt, a step, the cache between them, and peaks of other sizes."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from ..capture.model.positions import positions_of
from ..capture.model.tensors import tensors_in
from ..capture.twin.meta_copy import on_meta
from ..errors import InputError
from ..results.generation import Sample
from ..results.kv_cache import DYNAMIC, CachePart, KVCache
from ..results.profile import Profile

CACHE_NAMES = ("past_key_values", "cache_params")
"""What a forward calls its keys and values, or its states."""
GROWING = {"keys": -2, "values": -2, "indexer_keys": 1}
"""What a layer of a cache has a row of for each token, and in which dimension."""
FAR = 64
"""Times the batch that are counted on meta."""
LONG = 1 << 16
"""Tokens that are counted on meta if a model's positions have no end."""
IDS = "input_ids"


def is_encoder_decoder(model: nn.Module) -> bool:
    """Whether an encoder reads what a decoder then writes about."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def prompt_name(model: nn.Module) -> str:
    """What the first forward calls the prompt: an encoder may take sound or an image in the place of token ids."""
    return str(model.main_input_name) if is_encoder_decoder(model) else IDS


def check_generates(model: Any) -> None:
    """Refuse a model that does not write one token after another."""
    can_generate = getattr(model, "can_generate", lambda: False)()
    if not can_generate or _cache_name(model) is None:
        raise InputError(
            f"{type(model).__name__} cannot generate token by token: that needs a model of transformers with a vocabulary "
            f"head, whose forward takes {' or '.join(CACHE_NAMES)}. flopsight profile counts one forward of any model."
        )


def _cache_name(model: nn.Module) -> str | None:
    takes = inspect.signature(model.forward).parameters
    return next((name for name in CACHE_NAMES if name in takes), None)


class DecodeLoop:
    """One generation: the prompt, then one forward for each new token. What the tokens are does not matter to their costs."""

    def __init__(self, model: nn.Module, prompt: torch.Tensor, new_tokens: int, kind: str) -> None:
        self.model, self.new_tokens, self.kind = model, new_tokens, kind
        self._prompt = prompt
        self._cache_name = _cache_name(model) or ""
        self.token = self._ones(1)

    def _ones(self, tokens: int) -> torch.Tensor:
        ids = torch.ones((self._prompt.shape[0], tokens), dtype=torch.int64, device="cpu")
        return on_meta(ids) if self._prompt.is_meta else ids.to(self._prompt.device)

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What the first forward takes."""
        return {prompt_name(self.model): self._prompt}

    @property
    def prompt(self) -> int:
        """Tokens in each prompt."""
        return self._prompt.shape[1]

    @property
    def seen(self) -> int:
        """Tokens of each sequence that the decoder has seen after the prompt."""
        return self.prompt

    @property
    def batch(self) -> int:
        """Sequences side by side."""
        return self._prompt.shape[0]

    def sized(self, batch: int, tokens: int | None = None) -> DecodeLoop:
        """The same with so many sequences, of so many tokens; larger ones on meta alone."""
        rest = self._prompt.shape[1:] if tokens is None else (tokens,)
        ids = self._prompt.new_empty((batch, *rest)) if self._prompt.is_meta else self._prompt[:batch, : rest[0]]
        return type(self)(self.model, ids, self.new_tokens, self.kind)

    def new_cache(self) -> Any:
        """An empty cache of keys and values, or of states."""
        return self._empty_cache(self.model.config, self.seen + self.new_tokens)

    def _empty_cache(self, config: Any, length: int) -> Any:
        import transformers

        if self.kind == DYNAMIC:
            return transformers.DynamicCache(config=config)
        return transformers.StaticCache(config=config, max_cache_len=length)

    def prefill(self, cache: Any, more: int = 0) -> None:
        """One forward over the prompt and `more` tokens after it; only the last position's logits are needed."""
        last = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(self.model.forward).parameters else {}
        ids = torch.cat([self._prompt, self._ones(more)], dim=1) if more else self._prompt
        self.model(input_ids=ids, **{self._cache_name: cache}, use_cache=True, **last)

    def step(self, cache: Any) -> None:
        """One forward, which makes one token of each sequence."""
        self.model(input_ids=self.token, **{self._cache_name: cache}, use_cache=True)

    def decode(self, cache: Any) -> None:
        """One forward for each new token."""
        for _ in range(self.new_tokens):
            self.step(cache)


class EncodedLoop(DecodeLoop):
    """The encoder once, with the decoder's first token; then one forward of the decoder for each new token."""

    _encoded: torch.Tensor

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What the encoder takes, and the token that the decoder begins with."""
        return {**super().inputs, "decoder_input_ids": self.token}

    @property
    def prompt(self) -> int:
        """Positions that the encoder hands on; known after the prefill."""
        return self._encoded.shape[1]

    @property
    def seen(self) -> int:
        """The first token."""
        return 1

    def new_cache(self) -> Any:
        """Keys and values of the decoder's own tokens, and of the encoder's; the latter take their length as it comes."""
        import transformers

        own = self._empty_cache(_decoder_config(self.model.config), self.seen + self.new_tokens)
        return transformers.EncoderDecoderCache(own, transformers.DynamicCache())

    def prefill(self, cache: Any, more: int = 0) -> None:
        """The encoder, and the decoder's first token, which also makes the keys and values of what was encoded."""
        inputs = {**self.inputs, "decoder_input_ids": self._ones(1 + more)}
        output = self.model(**inputs, past_key_values=cache, use_cache=True)
        self._encoded = output.encoder_last_hidden_state

    def step(self, cache: Any) -> None:
        """One forward of the decoder."""
        from transformers.modeling_outputs import BaseModelOutput

        encoded = BaseModelOutput(last_hidden_state=self._encoded)
        self.model(encoder_outputs=encoded, decoder_input_ids=self.token, past_key_values=cache, use_cache=True)


def _decoder_config(config: Any) -> Any:
    """The configuration of a decoder; T5's calls the layers of its encoder `num_layers`, and transformers makes as many caches."""
    decoder = config.get_text_config(decoder=True)
    layers = getattr(config, "num_decoder_layers", None)
    if layers in (None, decoder.num_hidden_layers):
        return decoder
    decoder = deepcopy(decoder)
    decoder.num_hidden_layers = layers
    return decoder


# -- what a cache holds


def cache_tensors(cache: Any) -> list[torch.Tensor]:
    """The keys, values and states that a cache holds, each once."""
    found = {id(t): t for layer in _layers(cache) for t in tensors_in(list(vars(layer).values()))}
    return [tensor for tensor in found.values() if tensor.is_floating_point()]


def describe_cache(cache: Any, kind: str, batch: int, length: int) -> KVCache:
    """What a cache that was made for `length` tokens keeps of each, in closed form."""
    growing: Counter[int | None] = Counter()
    state = 0
    for layer in _layers(getattr(cache, "self_attention_cache", cache)):
        for name, tensor in _named_tensors(layer):
            size = tensor.numel() * tensor.element_size() // batch
            if name in GROWING:
                growing[_window(layer, kind, length)] += size // max(1, tensor.shape[GROWING[name]])
            else:
                state += size
    parts = tuple(CachePart(size, window) for window, size in growing.items() if size)
    other = getattr(cache, "cross_attention_cache", None)
    encoded = sum(t.numel() * t.element_size() // batch for t in cache_tensors(other)) if other is not None else 0
    return KVCache(kind, parts, state, encoded)


def _window(layer: Any, kind: str, length: int) -> int | None:
    """Tokens that a layer keeps at most; one that grows keeps one less than its window, in which the next token is too."""
    if not getattr(layer, "is_sliding", False):
        return None
    if kind == DYNAMIC:
        return int(layer.sliding_window) - 1
    window = int(layer.max_cache_len)
    return window if window < length else None  # a longer window is not allocated, and not known


def _named_tensors(layer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in vars(layer).items():
        for tensor in tensors_in([value]):
            if tensor.is_floating_point():
                yield name, tensor


def _layers(cache: Any) -> list[Any]:
    if hasattr(cache, "self_attention_cache"):
        return [*_layers(cache.self_attention_cache), *_layers(cache.cross_attention_cache)]
    return getattr(cache, "layers", None) or [cache]


# -- other batches and prompts, so that peaks are known at any size


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

    half = take(loop.batch, loop.prompt // 2) if prompt_name(loop.model) == IDS and loop.prompt > 1 else None
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
