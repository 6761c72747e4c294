"""What is inside an op that has no formula: other ops, or the body of a custom op, which may leave torch for numpy or a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.overrides import TorchFunctionMode

from ...results.op_kinds import MADE_OF_OPS
from ..hooks import internals
from ..model.tensors import flat
from .opinfo import OpInfo

Tensor = torch.Tensor
EXITS = frozenset(
    (
        Tensor.numpy,
        Tensor.__array__,
        Tensor.data_ptr,
        Tensor.__dlpack__,
        Tensor.__cuda_array_interface__.__get__,
    )
)
"""Functions that hand a tensor's memory to code outside torch. Triton and ctypes kernels ask for `data_ptr`."""


class Exits(TorchFunctionMode):
    """Watches whether the code of a custom op leaves torch."""

    def __init__(self) -> None:
        super().__init__()
        self.left = False
        """Whether memory was handed to code outside torch."""
        self.nested: Exits | None = None
        """The custom op that is running inside this one: what leaves torch there is its business."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in EXITS and self.nested is None:
            self.left = True
        return func(*args, **(kwargs or {}))

    def note(self, output: Any) -> None:
        """An op inside returned this."""


class Body(Exits):
    """Watches the body of one custom op; `seen_whole` says afterwards whether its ops account for what it did."""

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self._given = {internals.storage_key(tensor) for tensor in _stored((args, kwargs))}
        self._written: WeakValueDictionary[int, torch.UntypedStorage] = WeakValueDictionary()
        """Memory that torch's ops wrote, as long as it is alive: its address may mean other memory afterwards."""
        names = [argument.name for argument in internals.schema(func).arguments]
        values = dict(zip(names, args, strict=False)) | kwargs
        writes = [
            a.name for a in internals.schema(func).arguments if a.alias_info is not None and a.alias_info.is_write
        ]
        self._to_write = {internals.storage_key(t) for name in writes for t in _stored(values.get(name))}

    def note(self, output: Any) -> None:
        """An op inside returned this, so it wrote into its memory."""
        for tensor in _stored(output):
            self._written[internals.storage_key(tensor)] = tensor.untyped_storage()

    def seen_whole(self, output: Any) -> bool:
        """Whether torch's ops wrote everything that the custom op returned or promised to write."""
        returned = {internals.storage_key(tensor) for tensor in _stored(output)}
        return not self.left and (returned - self._given) | self._to_write <= set(self._written)


def _stored(value: Any) -> list[Tensor]:
    return [tensor for tensor in flat(value) if internals.has_storage(tensor)]


def in_other_ops(info: OpInfo, func: Any, args: Any) -> Callable[..., Any] | None:
    """The op in terms of other ops, if torch itself is written that way."""
    if internals.is_composite(func):
        decompose: Callable[..., Any] = func.decompose
        return decompose
    if info.name not in MADE_OF_OPS:
        return None
    # the kernel of the device that it runs on: CUDA's attends by a fused kernel, the CPU's by products and a softmax
    own = ("CUDA",) if any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args) else ()
    return internals.kernel(func, *own, "CPU", "CompositeExplicitAutograd")
