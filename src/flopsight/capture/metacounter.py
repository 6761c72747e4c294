"""Counting on meta tensors: ops are remembered by their arguments' shapes, values are looked up in shadows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..caveats import Assumed
from . import internals, shadow
from .dispatch import Counter
from .memory import Live, Saved

Tensor = torch.Tensor
aten = torch.ops.aten
ALIASES = "aliases"
"""The memo's word for an op whose result is not a fresh tensor: it has to run."""
RANDOM_VALUE = "a value that depends on data was asked for and taken as zero"
BALANCED = "a router chooses every expert equally often"


class MetaCounter(Counter):
    """A counter for models on meta, as if they ran on `target`.

    Python meta kernels take up to milliseconds, so what an op returns is remembered by what went in.
    """

    def __init__(
        self,
        model: nn.Module | None,
        known: Callable[[str], bool],
        saved: Saved | None = None,
        live: Live | None = None,
        *,
        target: str = "cpu",
    ) -> None:
        super().__init__(model, known, saved, live)
        self._target = target
        self._memo: dict[Any, Any] = {}

    def __enter__(self) -> MetaCounter:
        """Begin to watch; attention takes the path that it would take on the target device."""
        if not self._depth:
            self._stack.enter_context(_attention_as_on(self._target))
        super().__enter__()
        return self

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The op's result without data, and without running its meta kernel twice for the same shapes."""
        args, kwargs = self._moved(args), {key: self._moved(value) for key, value in kwargs.items()}
        if func is aten._local_scalar_dense.default and args[0].is_meta:
            return self._scalar(args[0])
        if func in shadow.BY_VALUE and args[0].is_meta:
            return shadow.by_value(func, args, kwargs)
        if func is aten.index.Tensor or func is aten.index_put_.default or func is aten.index_put.default:
            args = (args[0], [_as_indices(index) for index in args[1]], *args[2:])
        output = self._remembered(func, args, kwargs)
        if func is aten.topk.default and output[1].is_meta and not hasattr(args[0], shadow.ATTRIBUTE):
            shadow.balanced(output, args[0].shape[-1])
            self._assume(BALANCED)
        else:
            shadow.follow(func, args, kwargs, output)
        return output

    def _moved(self, value: Any) -> Any:
        """Real tensors among meta ones join them, with their values; the target device means meta here."""
        if isinstance(value, Tensor):
            if value.is_meta or internals.is_wrapper_subclass(value):
                return value
            return shadow.remember(torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta"), value)
        if isinstance(value, list | tuple):
            return type(value)(map(self._moved, value))
        if isinstance(value, torch.Generator):
            return None
        return torch.device("meta") if isinstance(value, torch.device) and value.type == self._target else value

    def _assume(self, what: str) -> None:
        if Assumed(what) not in self.caveats:
            self.caveats.append(Assumed(what))

    def _scalar(self, tensor: Tensor) -> Any:
        try:
            return shadow.value_of(tensor).item()
        except shadow.Unknowable:
            self._assume(RANDOM_VALUE)
            return False if tensor.dtype is torch.bool else 0

    def _remembered(self, func: Any, args: Any, kwargs: Any) -> Any:
        schema = func._schema
        if schema.is_mutable and _returns_self(func, args):
            return args[0]
        if func.is_view or schema.is_mutable:
            return func(*args, **kwargs)
        key = (func, _key(args), _key(tuple(kwargs.items())))
        try:
            made = self._memo.get(key)
        except TypeError:
            return func(*args, **kwargs)
        if made is None:
            output = func(*args, **kwargs)
            self._memo[key] = _described(output, args)
            return output
        return func(*args, **kwargs) if made is ALIASES else _fresh(made)


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    return (type(value), value)


def _returns_self(func: Any, args: Any) -> bool:
    """Whether an in-place op hands back its first argument unchanged in shape."""
    name = func._schema.name
    return (
        name.endswith("_")
        and len(func._schema.returns) == 1
        and isinstance(args[0], Tensor)
        and not any(word in name for word in ("resize", "set_", "squeeze", "transpose", "t_", "swap", "as_strided"))
    )


def _described(output: Any, args: Any) -> Any:
    """What to make again next time, or that the result cannot be made again."""
    if isinstance(output, Tensor):
        shared = any(isinstance(value, Tensor) and value is output for value in args)
        return ALIASES if shared or not output.is_meta else (output.shape, output.stride(), output.dtype)
    if isinstance(output, list | tuple):
        parts = [_described(one, args) if isinstance(one, Tensor) else ("constant", one) for one in output]
        nested = any(isinstance(one, list | tuple) for one in output)
        return ALIASES if nested or any(part is ALIASES for part in parts) else [type(output), parts]
    return ALIASES


def _fresh(made: Any) -> Any:
    if isinstance(made, tuple):
        if made[0] == "constant":
            return made[1]
        return torch.empty_strided(made[0], made[1], dtype=made[2], device="meta")
    kind, parts = made
    return kind(map(_fresh, parts))


def _as_indices(index: Any) -> Any:
    """A known boolean mask as the indices that it picks: their number decides the result's shape."""
    if isinstance(index, Tensor) and index.dtype is torch.bool and index.is_meta:
        picked = shadow.value_of(index).nonzero()
        if picked.shape[1] == 1:
            return shadow.known(picked[:, 0].to("meta"), picked[:, 0])
    return index


@contextmanager
def _attention_as_on(target: str) -> Iterator[None]:
    """On meta, scaled_dot_product_attention falls apart into products; make it the op that the target would run."""

    def attention(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        path = attention_path(target, query, key, value, attn_mask, dropout_p)
        if path == "flash_for_cpu":
            out = aten._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
            )
        elif path == "flash":
            out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)
        elif path == "efficient" and not enable_gqa:
            out = aten._scaled_dot_product_efficient_attention(
                query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale
            )
        else:
            out = aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
            )
        first: Tensor = out[0]
        return first

    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", attention, "AutogradMeta")
    try:
        yield
    finally:
        library._destroy()


def attention_path(target: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> str:
    """Which kernel the target device would choose."""
    plain = query.dim() == 4 and query.shape[-1] == key.shape[-1] == value.shape[-1] and 0 not in query.shape
    if not plain or (mask is not None and mask.requires_grad):
        return "math"
    if target == "cpu":
        return "flash_for_cpu" if dropout == 0.0 else "math"
    half = query.dtype in (torch.float16, torch.bfloat16)
    if half and mask is None and query.shape[-1] <= 256:
        return "flash"
    return "efficient" if query.dtype in (torch.float32, torch.float16, torch.bfloat16) else "math"
