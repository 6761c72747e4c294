"""Records: one operator call, one module call, as facts without a cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from math import prod
from operator import add
from typing import Any

Shape = tuple[int, ...]
FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER = PHASES = ("forward", "backward", "recompute", "optimizer")
OUTSIDE = "<outside>"
"""The path of whatever ran outside every module: a loss, glue between models."""


def above(path: str) -> Iterator[str]:
    """The paths of all modules that a module is in, the root's last, which is the empty string."""
    while path:
        path = path.rpartition(".")[0]
        yield path


KINDS = ("pointwise", "reduction", "view", "copy", "random", "matrix", "other")
"""What torch knows of an op. `view` does no work at all (also `empty`), `copy` only moves bytes."""

ITEM_SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "bcomplex32": 4, "complex64": 8, "complex128": 16,
    "quint8": 1, "qint8": 1, "qint32": 4,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1, "quint4x2": 1, "quint2x4": 1, "bits8": 1, "bits4x2": 1, "bits2x4": 1, "bits1x8": 1,
    "bits16": 2,
}  # fmt: skip
BITS = tuple(f"{sign}int{width}" for sign in ("", "u") for width in range(1, 8))
ITEM_SIZES |= dict.fromkeys(BITS, 1)


def _named_size(dtype: str) -> int:
    """Bytes of an element of a type that is newer than the table: the first number in its name is its bits."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1


@dataclass(frozen=True, slots=True)
class Padding:
    """How much of the batches of a step is padding. Adds up."""

    positions: int
    """Samples times the length that all have in the batch."""
    padded: int
    """Those of `positions` that hold no token."""
    pairs: int
    """Pairs of positions in one sample, which attention works on."""
    real_pairs: int
    """Pairs of tokens."""

    def __add__(self, other: Padding) -> Padding:
        return Padding(*map(add, astuple(self), astuple(other)))

    @property
    def share(self) -> float:
        """Positions that are padding, of all."""
        return self.padded / self.positions if self.positions else 0.0

    @property
    def pair_share(self) -> float:
        """Pairs with padding in them, of all."""
        return 1 - self.real_pairs / self.pairs if self.pairs else 0.0


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A tensor as an op saw it, without its values."""

    shape: Shape
    """Its sizes."""
    stride: Shape | None = None
    """Elements between neighbours in each dimension; None if it has none."""
    dtype: str = "float32"
    """`float32`, `bfloat16`, ..."""
    device: str = "cpu"
    """`cpu`, `cuda`, `meta`."""

    @property
    def numel(self) -> int:
        """Elements that the shape names."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEM_SIZES.get(self.dtype) or _named_size(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes that reading the tensor touches: an expanded dimension is read once."""
        if self.stride is None or 0 not in self.stride:
            return self.numel * self.itemsize
        return prod(n for n, step in zip(self.shape, self.stride, strict=True) if step or not n) * self.itemsize

    @property
    def is_complex(self) -> bool:
        """Whether an element is a pair of reals."""
        return "complex" in self.dtype

    @property
    def is_real_number(self) -> bool:
        """Whether arithmetic on it is floating point: not boolean, not integer."""
        return self.dtype.startswith(("float", "bfloat", "complex"))


Argument = Any
"""A `TensorMeta`, a scalar, a string, None, or a tuple of these."""


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operator call (or `count` equal ones), as it happened. No cost, no share, no unit choice."""

    op: str
    """Namespace and name: `aten.mm`."""
    overload: str = "default"
    """Which variant of the op: `default`, `out`, `Tensor`."""
    args: Mapping[str, Argument] = field(default_factory=dict)
    """By schema name, defaults filled in: groups, output_mask, is_causal are in here."""
    outputs: tuple[TensorMeta, ...] = ()
    """The tensors that it returned."""
    kind: str = "other"
    """What torch knows of the op; see `KINDS`."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What only torch could tell: nnz, ragged lengths, mask density, a global shape."""
    module: str = ""
    """Path of the module that it ran in."""
    phase: str = FORWARD
    """forward, backward, recompute or optimizer."""
    count: int = 1
    """How many equal calls this record stands for."""

    def at(self, module: str, phase: str, count: int) -> OpRecord:
        """The same call in another `module` and `phase`, made `count` times."""
        return OpRecord(self.op, self.overload, self.args, self.outputs, self.kind, self.facts, module, phase, count)

    def shape(self, name: str) -> Shape:
        """The shape of the tensor argument `name`."""
        return self.tensor(name).shape

    def tensor(self, name: str) -> TensorMeta:
        """The tensor argument `name`; KeyError with the op's name if the call had none of that name."""
        value = self.args.get(name)
        if not isinstance(value, TensorMeta):
            raise KeyError(f"{self.op} was called without a tensor {name!r}; it has {', '.join(self.args)}")
        return value

    def tensors(self, name: str) -> tuple[TensorMeta, ...]:
        """The tensors of the argument `name`: of a list, of one tensor, or none."""
        value = self.args.get(name)
        return tuple(_flat(value))

    @property
    def inputs(self) -> tuple[TensorMeta, ...]:
        """Every tensor that was handed in, lists opened."""
        return tuple(meta for value in self.args.values() for meta in _flat(value))

    @property
    def output(self) -> TensorMeta:
        """The first output."""
        return self.outputs[0]


def _flat(value: Argument) -> list[TensorMeta]:
    if isinstance(value, TensorMeta):
        return [value]
    if isinstance(value, tuple):
        return [meta for item in value for meta in _flat(item)]
    return []


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time in a traced run, in nanoseconds from its beginning."""

    name: str
    kind: str
    """module, op or kernel."""
    begin: int
    end: int
    lane: int
    """The thread on the host, the stream on the device."""
    path: str = ""
    """The module that it is, or that it ran in."""
    shapes: tuple[Shape, ...] = ()
    phase: str = ""
    """The phase of an op or of the host work that launched a kernel; empty for a module, and in older files."""


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """What went into a module and came out of it, the first time; and how often it was called."""

    module: str
    calls: int
    inputs: tuple[TensorMeta, ...] = ()
    outputs: tuple[TensorMeta, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter tensor. Two nodes that own the same tensor hold the same `key`."""

    key: int
    name: str
    numel: int
    itemsize: int = 4
    trainable: bool = True
    whole_numel: int | None = None
    """Elements of the whole tensor, if this process holds a shard of it."""
    state_bytes: int = 0
    """What the optimizer keeps for it."""
    expert: bool = False
    """Whether it belongs to an expert that other ranks do not have."""
    unread: bool = False
    """Whether no op of the forward read it, though its module ran; looked for if memory is followed."""
    active: float | None = 1.0
    """The share of it that one token passes, the mean: k of n if a router chooses k of n experts; None if that is not known."""
    read_bytes: int | None = None
    """Bytes that one call of its module reads of it, at most, if that is not all: rows of a table, experts that were chosen."""
    held_bytes: int | None = None
    """Bytes that it takes, if that is not its elements times their size: codes and scales of a quantised weight."""

    @property
    def nbytes(self) -> int:
        """Bytes that this process holds of it."""
        return self.numel * self.itemsize if self.held_bytes is None else self.held_bytes

    @property
    def elements(self) -> int:
        """Elements of the whole tensor, also if this process holds a shard of it."""
        return self.numel if self.whole_numel is None else self.whole_numel

    @property
    def most_read(self) -> int:
        """Bytes that one call of its module reads of it, at most."""
        return self.nbytes if self.read_bytes is None else self.read_bytes


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module as it stands in the model, called or not."""

    path: str
    name: str
    kind: str
    extra_repr: str = ""
    parameters: tuple[Parameter, ...] = ()
    shapes: tuple[Shape, ...] = ()
    """Of each of `parameters`, as this process holds it."""
    packed_bytes: int = 0
    """Bytes of its buffers, if they hold packed weights."""
