"""Which meshes are worth trying for so many GPUs, and how a batch can be divided on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, isqrt

from ...distributed.mesh_axes import written
from ...errors import InputError, does_not_divide

LONG = 32768
"""Tokens in a sequence from which on dividing sequences (cp) is tried."""
MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Tried if no batch is given."""
FILL = 4
"""Micro-batches for each stage of a pipeline if no batch is given: the bubble stays below a fifth."""


@dataclass(frozen=True)
class Shape:
    """What of a model decides how it can be divided."""

    depth: int
    heads: int | None = None
    key_value_heads: int | None = None
    experts: int | None = None
    seq: int | None = None


def meshes(gpus: int, gpus_per_node: int, shape: Shape) -> Iterator[dict[str, int]]:
    """Meshes that use all GPUs and divide heads, layers and experts, tensor parallel inside a node."""
    for tp in _divisors(min(gpus, gpus_per_node)):
        if gpus % tp or not _divides_heads(tp, shape):
            continue
        for pp in _divisors(gpus // tp):
            if pp > 1 and (shape.heads is None or pp > shape.depth or pp & (pp - 1)):
                continue
            for cp in _divisors(gcd(gpus // tp // pp, shape.seq or 0)) if (shape.seq or 0) >= LONG else [1]:
                for ep in _divisors(gpus // tp // pp // cp) if shape.experts else [1]:
                    if cp & (cp - 1) or ep > (shape.experts or 1) or (shape.experts or 1) % ep or cp > 16:
                        continue
                    yield from _data_parallel(gpus // tp // pp // cp // ep, gpus_per_node // tp, pp, cp, ep, tp)


def _data_parallel(ranks: int, in_node: int, pp: int, cp: int, ep: int, tp: int) -> Iterator[dict[str, int]]:
    """The rest of the GPUs as shards, as replicas, or as replicas of shards inside a node."""
    others = {name: size for name, size in (("cp", cp), ("ep", ep), ("tp", tp)) if size > 1}
    stages = {"pp": pp} if pp > 1 else {}
    yield {**stages, "fsdp": ranks, **others} if ranks > 1 else {**stages, **others} or {"dp": 1}
    if ranks > 1:
        yield {**stages, "dp": ranks, **others}
    if 1 < in_node < ranks and ranks % in_node == 0 and pp == 1:
        yield {"dp": ranks // in_node, "fsdp": in_node, **others}


def check_shape(mesh: Mapping[str, int], gpus: int, shape: Shape) -> None:
    """Refuse a mesh that has another number of ranks, or does not divide the model."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    if ranks != gpus:
        raise InputError(f"The mesh {written(mesh)} has {ranks} ranks, and there are {gpus} GPUs: give --gpus {ranks}.")
    tp, pp, cp, ep = (mesh.get(name, 1) for name in ("tp", "pp", "cp", "ep"))
    both = gcd(shape.heads or 0, shape.key_value_heads or 0)
    for heads, what in ((shape.heads, "attention heads"), (shape.key_value_heads, "key-value heads")):
        if heads is not None and heads % tp:
            raise does_not_divide("tp", tp, both, f"the {heads} {what} of this model")
    if tp > 1 and shape.heads is None:
        raise InputError(f"tp={tp} divides attention heads, and this model has none that are known; leave tp out.")
    if pp > max(1, shape.depth):
        raise InputError(f"pp={pp} needs at least {pp} blocks, and this model has {shape.depth}; take fewer stages.")
    if cp > 1 and not shape.seq:
        raise InputError(f"cp={cp} divides sequences of tokens, and this model reads none; leave cp out.")
    if cp > 1 and shape.seq and shape.seq % cp:
        raise does_not_divide("cp", cp, shape.seq, f"a sequence of {shape.seq:,} tokens", most=64)
    if ep > 1 and not shape.experts:
        raise InputError(f"ep={ep} divides experts, and this model has none; leave ep out.")
    if ep > 1 and shape.experts and shape.experts % ep:
        raise does_not_divide("ep", ep, shape.experts, f"the {shape.experts} experts of this model")


def batch_splits(
    batch: int | None, replicas: int, stages: int, micro_batch: int | None, accumulate: int | None
) -> list[tuple[int, int]]:
    """Micro-batch and accumulation for one replica, the smallest micro-batch first; none if the batch cannot be divided."""
    if batch is None:
        sizes = (micro_batch,) if micro_batch else MICRO_BATCHES
        return [(size, accumulate or (FILL * stages if stages > 1 else 1)) for size in sizes]
    if batch % replicas:
        return []
    each = batch // replicas
    found = [(size, each // size) for size in _divisors(each)]
    return [(size, times) for size, times in found if micro_batch in (None, size) and accumulate in (None, times)]


def _divides_heads(tp: int, shape: Shape) -> bool:
    if tp == 1:
        return True
    return shape.heads is not None and not any(heads % tp for heads in (shape.heads, shape.key_value_heads) if heads)


def _divisors(number: int) -> list[int]:
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})
