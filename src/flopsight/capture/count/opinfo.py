"""Facts of a call that need torch: the kind of an op, its argument names, and values that decide its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import torch

from ...results.op_kinds import listed_kind, multiplies_matrices
from ..hooks import internals
from ..model.tensors import stored_bytes
from .higher_order import TAKEN_APART, is_higher_order

COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
"""Namespaces of the ops that talk to other ranks."""


@dataclass(eq=False, slots=True)
class OpInfo:
    """Name, kind and arguments of an op, read once before its first call is recorded."""

    name: str
    overload: str = "default"
    names: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    kind: str = "other"
    allocates: bool = True
    facts: FactsOf | None = None
    expand: bool = False
    exchanges: bool = False
    """Whether it talks to other ranks."""
    seeded: bool = False
    """Whether it draws random numbers."""
    writes: tuple[str, ...] = ()
    """The arguments that it writes into."""
    unseen: bool = False
    """Whether it passes no dispatcher: the kernels of a CUDA graph, numpy in the backward of a custom op."""
    calls: int = 0


def op_info(func: Any) -> OpInfo:
    """What torch knows of an op."""
    schema = internals.schema(func)
    name = schema.name.replace("::", ".")
    arguments = [argument for argument in schema.arguments if not argument.is_out]
    kind = kind_of(func, name)
    return OpInfo(
        name,
        schema.overload_name or "default",
        names=tuple(argument.name for argument in arguments),
        defaults={argument.name: argument.default_value for argument in arguments if argument.has_default_value()},
        kind=kind,
        allocates=not func.is_view or name == "aten.lift_fresh",
        facts=FACTS.get(name),
        expand=kind in ("matrix", "other"),
        exchanges=name.split(".", maxsplit=1)[0] in COLLECTIVES,
        seeded=torch.Tag.nondeterministic_seeded in func.tags,
        writes=tuple(each.name for each in schema.arguments if each.alias_info and each.alias_info.is_write),
    )


def _higher_order_info(func: Any) -> OpInfo:
    """The same for an op that takes functions; it has no schema, so arguments go by position."""
    name = f"higher_order.{func.name()}"
    names = HIGHER_ORDER_NAMES.get(func.name(), ())
    return OpInfo(name, names=names, facts=FACTS.get(name), expand=name in TAKEN_APART)


def kind_of(func: Any, name: str) -> str:
    """pointwise, reduction, view, copy, random, matrix or other."""
    if func.is_view:
        return "view"
    listed = listed_kind(name)
    if listed is not None:
        return listed
    if internals.is_pointwise(func):
        return "pointwise"
    if internals.is_reduction(func):
        return "reduction"
    if torch.Tag.nondeterministic_seeded in func.tags and "dropout" not in name and "attention" not in name:
        return "random"
    return "matrix" if multiplies_matrices(name) else "other"


HIGHER_ORDER_NAMES: dict[str, tuple[str, ...]] = {
    "flex_attention": ("query", "key", "value", "score_mod", "block_mask", "scale"),
    "flex_attention_backward": (
        "query", "key", "value", "out", "logsumexp", "grad_out", "grad_logsumexp", "fw_graph", "joint_graph",
        "block_mask", "scale",
    ),
}  # fmt: skip


def _block_density(args: Mapping[str, Any]) -> dict[str, Any]:
    """The share of score blocks that flex attention computes: those its block mask lists."""
    mask = args["block_mask"]
    counts, full = mask[2], mask[4]
    blocks = int(counts.sum()) + (int(full.sum()) if full is not None else 0)
    keys, block = mask[1], mask[-2]
    whole = counts.numel() * -(-keys // block) if counts.dim() else 1
    return {"density": blocks / whole if whole else 1.0}


def _ragged_products(args: Mapping[str, Any]) -> dict[str, Any]:
    """Products of two nested tensors: every pair of matrices in them has its own lengths."""
    left, right = args["self"], args["other"] if "other" in args else args["mat2"]
    if not all(side.is_nested and side.layout is torch.strided for side in (left, right)):
        return {}
    return {"products": int((internals.nested_sizes(left).prod(1) * internals.nested_sizes(right)[:, -1]).sum())}


def _sequence_lengths(args: Mapping[str, Any]) -> dict[str, Any]:
    """Lengths of the sequences in a nested query."""
    query = args["query"]
    return {"lengths": tuple(internals.nested_sizes(query)[:, 0].tolist())} if query.is_nested else {}


def _segments(args: Mapping[str, Any]) -> dict[str, Any]:
    """Lengths of the sequences packed into a variable-length attention call."""
    found = {}
    bounds_of = {
        "lengths_q": ("cum_seq_q", "cu_seqlens_q", "cu_seq_q"),
        "lengths_k": ("cum_seq_k", "cu_seqlens_k", "cu_seq_k"),
    }
    for fact, names in bounds_of.items():
        bounds = next((args[name] for name in names if args.get(name) is not None), None)
        if bounds is not None and not bounds.is_meta:
            found[fact] = tuple(bounds.diff().tolist())
    return found


def _groups(args: Mapping[str, Any]) -> dict[str, Any]:
    """Rows of each group of a grouped product; `offs` holds where each ends."""
    ends = args.get("offs")
    if ends is None or ends.is_meta:
        return {}
    return {"lengths": tuple(torch.diff(ends, prepend=ends.new_zeros(1)).tolist())}


def _packed_weight(args: Mapping[str, Any]) -> dict[str, Any]:
    """The shape of a weight that a quantised convolution keeps packed."""
    packed = args.get("packed_weight")
    return {"weight_shape": tuple(packed.unpack()[0].shape)} if packed is not None else {}


def _packed(args: Mapping[str, Any]) -> dict[str, Any]:
    """Batch sizes by time step of a packed sequence."""
    sizes = args.get("batch_sizes")
    if isinstance(sizes, torch.Tensor):
        return {"lengths": tuple(sizes.tolist())} if sizes.numel() and not sizes.is_meta else {}
    return {"lengths": tuple(sizes)} if sizes else {}


FactsOf = Callable[[Mapping[str, Any]], dict[str, Any]]
FACTS: dict[str, FactsOf] = {
    "aten.bmm": _ragged_products,
    "aten.matmul": _ragged_products,
    "aten._native_multi_head_attention": _sequence_lengths,
    "higher_order.flex_attention": _block_density,
    "higher_order.flex_attention_backward": _block_density,
}
FACTS |= dict.fromkeys(
    (
        "aten._flash_attention_forward", "aten._flash_attention_backward", "aten._efficient_attention_forward",
        "aten._efficient_attention_backward", "aten._cudnn_attention_forward", "aten._cudnn_attention_backward",
        "aten._flash_attention_forward_no_dropout_inplace", "aten._cudnn_attention_forward_no_dropout_inplace",
        "torch_attn._varlen_attn", "torch_attn._varlen_attn_backward",
    ),
    _segments,
)  # fmt: skip
FACTS |= dict.fromkeys(
    (
        "aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu", "aten._cudnn_rnn", "aten._cudnn_rnn_backward",
        "aten.miopen_rnn", "aten.miopen_rnn_backward",
    ),
    _packed,
)  # fmt: skip
FACTS |= dict.fromkeys(("aten._grouped_mm", "aten._scaled_grouped_mm", "aten._scaled_grouped_mm_v2"), _groups)
FACTS |= {f"quantized.conv{n}d{tail}": _packed_weight for n in (1, 2, 3) for tail in ("", "_relu", "_add", "_add_relu")}


def values_by_name(info: OpInfo, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The live arguments by name, for a fact function."""
    return dict(zip(info.names, args, strict=False)) | dict(kwargs)


_described: dict[Any, OpInfo] = {}


def describe(func: Any, known: Callable[[str], bool]) -> OpInfo:
    """The facts of an op; `expand` is True if it has no formula and may be looked into."""
    if is_higher_order(func):
        return _higher_order_info(func)
    if func not in _described:
        _described[func] = op_info(func)
    info = copy(_described[func])
    info.expand = info.expand and not known(info.name)
    return info


Tensor = torch.Tensor
BOTH = 2


def sparse_facts(info: OpInfo, args: Any, output: Any) -> tuple[tuple[str, Any], ...]:
    """Facts of a call with sparse operands: their names, their stored numbers, and the products of two of them."""
    found = [
        (name, value)
        for name, value in zip(info.names, args, strict=False)
        if isinstance(value, Tensor) and value.layout is not torch.strided and not value.is_nested
    ]
    names, operands = zip(*found, strict=True)
    facts: list[tuple[str, Any]] = [("sparse", names), ("nnz", stored(operands[-1]))]
    factors = operands[-BOTH:]
    if (
        info.kind == "matrix"
        and len(factors) == BOTH
        and args[-1] is factors[-1]
        and all(factor.dim() == BOTH for factor in factors)
    ):
        facts.append(("stored", (*map(stored, factors), stored(output))))
        columns, rows = _stored_along(factors[0], 1), _stored_along(factors[1], 0)
        if columns is not None and rows is not None and len(columns) == len(rows):
            facts.append(("products", int((columns * rows).sum())))
    return tuple(facts)


def stored(tensor: Tensor) -> int:
    """How many numbers a sparse tensor stores; any other stores all of them."""
    return stored_bytes(tensor) // tensor.itemsize


def _stored_along(matrix: Tensor, dim: int) -> Tensor | None:
    """How many elements a matrix stores in each row (0) or each column (1); None for layouts that store blocks."""
    if matrix.layout is torch.sparse_coo:
        return internals.sparse_places(matrix)[dim].bincount(minlength=matrix.shape[dim])
    if matrix.layout is torch.sparse_csr:
        return matrix.col_indices().bincount(minlength=matrix.shape[1]) if dim else matrix.crow_indices().diff()
    if matrix.layout is torch.sparse_csc:
        return matrix.ccol_indices().diff() if dim else matrix.row_indices().bincount(minlength=matrix.shape[0])
    return None
