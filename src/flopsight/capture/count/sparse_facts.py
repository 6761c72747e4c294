"""What only torch knows of a sparse operand: how many numbers it stores, and which of them meet in a product."""

from __future__ import annotations

from typing import Any

import torch

from ..hooks import internals
from ..model.tensors import stored_bytes
from .opinfo import OpInfo

Tensor = torch.Tensor
BOTH = 2


def sparse_facts(info: OpInfo, args: Any, output: Any) -> tuple[tuple[str, Any], ...]:
    """Facts of a call with sparse operands: their names, their stored numbers, and the products of two of them."""
    found = [
        (name, value)
        for name, value in zip(info.names, args, strict=False)
        if isinstance(value, Tensor) and _sparse(value)
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
        columns, rows = _by_column(factors[0]), _by_row(factors[1])
        if columns is not None and rows is not None and len(columns) == len(rows):
            facts.append(("products", int((columns * rows).sum())))
    return tuple(facts)


def stored(tensor: Tensor) -> int:
    """How many numbers a sparse tensor stores; any other stores all of them."""
    return stored_bytes(tensor) // tensor.itemsize


def _sparse(tensor: Tensor) -> bool:
    return tensor.layout is not torch.strided and not tensor.is_nested


def _by_column(matrix: Tensor) -> Tensor | None:
    """How many elements a matrix stores in each column; None for layouts that store blocks."""
    if matrix.layout is torch.sparse_coo:
        return internals.sparse_places(matrix)[1].bincount(minlength=matrix.shape[1])
    if matrix.layout is torch.sparse_csr:
        return matrix.col_indices().bincount(minlength=matrix.shape[1])
    return matrix.ccol_indices().diff() if matrix.layout is torch.sparse_csc else None


def _by_row(matrix: Tensor) -> Tensor | None:
    """The same for each row."""
    if matrix.layout is torch.sparse_coo:
        return internals.sparse_places(matrix)[0].bincount(minlength=matrix.shape[0])
    if matrix.layout is torch.sparse_csr:
        return matrix.crow_indices().diff()
    return matrix.row_indices().bincount(minlength=matrix.shape[0]) if matrix.layout is torch.sparse_csc else None
