"""Moves of a twin's tensors to the device where their originals are already: nothing moves, and nothing is copied."""

from __future__ import annotations

from typing import Any

import torch

Tensor = torch.Tensor
DTYPES = {
    "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
    "Bool": torch.bool, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128,
}  # fmt: skip
"""What the older names of tensor types mean: `torch.FloatTensor`, `torch.cuda.HalfTensor`."""


def to(mode: Any, func: Any, args: Any, kwargs: Any) -> Tensor:
    """`Tensor.to`: a device that the tensor says it is on becomes the one where it really is."""
    tensor, *rest = args
    here = [_really(mode, tensor, value) for value in rest]
    moved: Tensor = func(tensor, *here, **{key: _really(mode, tensor, value) for key, value in kwargs.items()})
    return moved


def to_device(kind: str) -> Any:
    """`Tensor.cpu` and `Tensor.cuda`."""

    def move(mode: Any, func: Any, args: Any, kwargs: Any) -> Tensor:
        tensor: Tensor = args[0]
        stays = tensor.is_meta and mode.device.type == kind and not any(map(_other_device(mode), args[1:]))
        return tensor if stays else func(*args, **kwargs)

    return move


def to_type(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.type`: the name of a type, which names a device too, or a copy of that type."""
    tensor, *rest = args
    if not rest and not kwargs:
        name: str = func(tensor)
        place = "" if mode.device.type == "cpu" else f"{mode.device.type}."
        return name.replace("torch.meta.", f"torch.{place}") if tensor.is_meta else name
    dtype = _dtype_named(mode, rest[0]) if rest and tensor.is_meta else None
    return func(*args, **kwargs) if dtype is None else func(tensor, dtype, *rest[1:], **kwargs)


def _really(mode: Any, tensor: Tensor, value: Any) -> Any:
    """Where a tensor is said to go, in terms of where tensors really are; a tensor to be like, as its type."""
    if not tensor.is_meta:
        return value
    if isinstance(value, Tensor):
        alike = value.is_meta or value.device.type == mode.device.type
        return value.dtype if alike else value
    if isinstance(value, str | torch.device) or (isinstance(value, int) and not isinstance(value, bool)):
        return value if _other_device(mode)(value) else torch.device("meta")
    return value


def _other_device(mode: Any) -> Any:
    def other(value: Any) -> bool:
        device = torch.device(value)
        return device.type != mode.device.type or device.index not in (None, mode.device.index)

    return other


def _dtype_named(mode: Any, wanted: Any) -> torch.dtype | None:
    """The dtype behind the name of a type on the target device; None if it is something else."""
    if isinstance(wanted, torch.dtype):
        return wanted
    words = (wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}").split(".")
    place = words[1] if len(words) == 3 else "cpu"
    return DTYPES.get(words[-1].removesuffix("Tensor")) if place == mode.device.type else None
