"""Building a model on meta: the constants that its constructors make keep their values for code that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..hooks import internals
from ..hooks.garbage import rarer_collections
from ..model.tensors import flat
from .known_values import Unknowable, follow, returns_itself, value_of
from .meta_copy import on_meta
from .value_ops import INSTEAD

Tensor = torch.Tensor
READS = {Tensor.tolist, Tensor.numpy, Tensor.__array__}


@contextmanager
def building_on_meta() -> Iterator[None]:
    """Make tensors on meta inside this block, and remember what they would hold."""
    with rarer_collections(), torch.device("meta"), _Constants(), _Values():  # type: ignore[no-untyped-call]
        yield


def settle_on_meta(model: nn.Module) -> None:
    """Move to meta what a constructor made on the CPU all the same, as `torch.Tensor(3)` and `torch.normal` do."""
    left = [
        (module, name, tensor)
        for module in model.modules()
        for named in (module.named_parameters, module.named_buffers)
        for name, tensor in named(recurse=False, remove_duplicate=False)
        if not tensor.is_meta
    ]
    twins = on_meta([tensor for _, _, tensor in left])
    for (module, name, _), twin in zip(left, twins, strict=True):
        setattr(module, name, twin)


class _Constants(TorchFunctionMode):
    """Tensors of numbers that are there in Python, and reads that go past every op."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and _meant_for_meta(args, kwargs):
            return on_meta(func(*args, **{**kwargs, "device": "cpu"}))
        if func in READS and args[0].is_meta:
            return func(value_of(args[0]), *args[1:], **kwargs)
        return func(*args, **kwargs)


class _Values(internals.TorchDispatchMode):
    """Follows what ops make of known values, and answers the ops that need them: `.item()`, a mask as an index."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output = self._run(func, args, kwargs)
        follow(func, args, kwargs, output)
        return output

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in INSTEAD:
            return self._from_values(func, args, kwargs)
        # torch's meta kernels of random numbers are slow, and a large model initialises thousands of weights
        return args[0] if returns_itself(func) and args[0].is_meta else func(*args, **kwargs)

    def _from_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            if any(tensor.is_meta for tensor in flat(args)):
                return INSTEAD[func](func, args, kwargs, _assume_nothing)
        except Unknowable:
            pass  # torch says itself what a meta tensor cannot do
        return func(*args, **kwargs)


def _meant_for_meta(args: Any, kwargs: Any) -> bool:
    device = kwargs.get("device")
    return not isinstance(args[0], Tensor) and (device is None or torch.device(device).type == "meta")


def _assume_nothing(_what: str) -> None:
    raise Unknowable
