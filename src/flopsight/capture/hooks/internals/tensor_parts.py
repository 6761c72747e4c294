"""What a tensor is made of: storage, parts of a wrapper, elements of a sparse or nested one."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, methodcaller

import torch
from torch._prims_common import suggest_memory_format
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

FakeTensor = torch._subclasses.fake_tensor.FakeTensor
"""A tensor that has a shape and no values, in which torch traces."""
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


def is_wrapper_subclass(value: object) -> bool:
    """Whether a tensor holds others and runs ops of its own on them."""
    return type(value) not in _PLAIN and is_traceable_wrapper_subclass(value)


def is_wrapper_type(kind: type) -> bool:
    """The same of a type."""
    return hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")


storage_number: Callable[[torch.UntypedStorage], int] = attrgetter("_cdata")
"""What two storages share exactly when they are the same memory, on meta too."""


def storage_key(tensor: torch.Tensor) -> int:
    """What two tensors share exactly when they share memory, on meta too."""
    key: int = tensor.untyped_storage()._cdata
    return key


def storage_bytes(tensor: torch.Tensor) -> int:
    """What the memory takes that a tensor is in, which may hold more than the tensor."""
    return tensor.untyped_storage().nbytes()


Signs = tuple[bool, bool]
"""Whether a tensor reads its memory negated, and whether conjugated."""


def signs(tensor: torch.Tensor) -> Signs:
    """How a tensor reads its memory."""
    return tensor.is_neg(), tensor.is_conj()


def with_signs(tensor: torch.Tensor, wanted: Signs) -> torch.Tensor:
    """The same tensor object, which from here on reads its memory so."""
    negated, conjugated = wanted
    if negated:
        torch._C._set_neg(tensor, True)
    if conjugated:
        torch._C._set_conj(tensor, True)
    return tensor


def as_stored(tensor: torch.Tensor) -> torch.Tensor:
    """What is in a tensor's memory, which it may read negated or conjugated."""
    stored = tensor.detach()
    if stored.is_neg():
        stored = torch._neg_view(stored)
    return torch._conj(stored) if stored.is_conj() else stored


_STRIDED = torch.strided
_of_torch_func: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


def has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has memory of its own: not sparse, not fake, no wrapper of a subclass or of torch.func."""
    if tensor.layout is not _STRIDED or _of_torch_func(tensor):
        return False
    return type(tensor) in _PLAIN or not (is_wrapper_subclass(tensor) or isinstance(tensor, FakeTensor))


def derived_shape(tensor: torch.Tensor) -> tuple[bool, tuple[int, ...]]:
    """Whether derivatives are made with a tensor in forward mode, and its shape with the dimensions that torch.func maps over."""
    dual = forward_ad.unpack_dual(tensor).tangent is not None
    while _of_torch_func(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return dual, tuple(tensor.shape)


sparse_values: Callable[[torch.Tensor], torch.Tensor] = methodcaller("_values")
"""The elements that a sparse tensor stores, equal places not yet added up."""
sparse_places: Callable[[torch.Tensor], torch.Tensor] = methodcaller("_indices")
"""Where those elements stand, a row for each dimension."""
nested_sizes: Callable[[torch.Tensor], torch.Tensor] = methodcaller("_nested_tensor_size")
"""The shape of each part of a nested tensor, a row a part."""
memory_order: Callable[[torch.Tensor], torch.memory_format] = suggest_memory_format
"""Whether a tensor's channels come last in memory; doubtful cases count as contiguous."""


def inner_tensors(wrapper: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors that a wrapper subclass (DTensor, jagged, quantised) holds, by attribute; none for a plain tensor."""
    if not is_wrapper_subclass(wrapper):
        return {}
    names, _ = wrapper.__tensor_flatten__()  # type: ignore[attr-defined]
    found = {name: getattr(wrapper, name, None) for name in names}
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}
