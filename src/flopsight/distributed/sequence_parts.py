"""Context parallelism by closed form: a rank has a part of every sequence, and gathers keys and values before attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from ..capture.hooks.patches import wrapped
from ..capture.model.tensors import tensors_in, with_tensors
from ..errors import InputError, does_not_divide

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

CLOSED_FORM = (
    "context parallel by closed form: a rank has an equal part of every sequence, gathers the keys and values of all "
    "parts before each attention and reduces their gradients, and attends with its part of the queries"
)


def sequence_length(inputs: Any) -> int | None:
    """Tokens of a sequence, or vectors of one, in the first input; None if it does not hold sequences."""
    first = next(iter(tensors_in(inputs)), None)
    if first is None or first.dim() < 2 or (first.is_floating_point() and first.dim() != 3):
        return None
    return first.shape[1]


def part_of(inputs: Any, ways: int) -> Any:
    """The inputs of one rank: the first of equal parts of every sequence in them."""
    length = sequence_length(inputs)
    if not length:
        first = tuple(tensors_in(inputs)[0].shape)
        raise InputError(f"cp={ways} divides sequences of tokens, and the first input is {first}; leave cp out.")
    if length % ways:
        raise does_not_divide("cp", ways, length, f"a sequence of {length:,} tokens", most=64)

    def part(tensor: torch.Tensor) -> torch.Tensor:
        divided = tensor.dim() > 1 and tensor.shape[1] == length
        return tensor.narrow(1, 0, length // ways).clone() if divided else tensor

    return with_tensors(inputs, part)


@contextmanager
def gathering_keys(mesh: DeviceMesh) -> Iterator[None]:
    """Let torch's attention gather keys and values over the ranks of a mesh; refuse a model that never calls it."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    calls = 0

    def whole(part: torch.Tensor) -> torch.Tensor:
        spread = DTensor.from_local(part, mesh, [Shard(part.dim() - 2)], run_check=False)
        return spread.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])

    def around(plain: Any) -> Any:
        def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if attn_mask is not None:
                attn_mask = attn_mask.repeat(*[1] * (attn_mask.dim() - 1), mesh.size())
            return plain(query, whole(key), whole(value), attn_mask, *args, **kwargs)

        return attention

    with wrapped(functional, "scaled_dot_product_attention", around):
        yield
    if not calls:
        raise InputError(
            f"cp={mesh.size()} divides sequences where a model calls torch's scaled_dot_product_attention, and this one "
            f"does not; leave cp out."
        )
