"""Tables of vectors: how much of a table a lookup reads, if nothing else reads all of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from ..results.op_kinds import aten
from ..results.records import ModuleCall, ModuleRow, OpRecord, Parameter, Shape

LOOKUPS = aten("embedding _embedding_bag _embedding_bag_forward_only embedding_bag")
RENORM = "aten.embedding_renorm"
"""Reads the rows that the lookup behind it reads."""
MATRIX = 2


def rows_read(
    rows: Sequence[ModuleRow], forward: Sequence[OpRecord], calls: Mapping[str, ModuleCall]
) -> dict[int, int]:
    """By the key of a table, the bytes that one call of its module reads at most: as many rows as there were ids.

    A table that is also multiplied with, as a tied head does, is left out, and so is one that may be: another module than
    its own takes a tensor of its shape and has no parameter of that shape.
    """
    owned: dict[str, dict[Shape, Parameter]] = {
        row.path: dict(zip(row.shapes, row.parameters, strict=True)) for row in rows if row.shapes
    }
    read: defaultdict[int, float] = defaultdict(float)
    shapes: dict[int, Shape] = {}
    for record in forward:
        table = record.inputs[0] if record.op in LOOKUPS else None
        parameter = owned.get(record.module, {}).get(table.shape) if table is not None else None
        if table is not None and parameter is not None and table.numel:
            once = max(1, calls[record.module].calls if record.module in calls else 1)
            looked_up = min(record.tensor("indices").numel, table.shape[0]) * record.count
            read[parameter.key] += looked_up * (parameter.nbytes // table.shape[0]) / once
            shapes[parameter.key] = table.shape
    taken = _modules_that_take({_sides(shape) for shape in shapes.values()}, forward) if shapes else {}
    return {key: ceil(size) for key, size in read.items() if not _taken(key, _sides(shapes[key]), taken, owned)}


def _modules_that_take(wanted: set[Shape], forward: Iterable[OpRecord]) -> dict[Shape, set[str]]:
    """By its sides, the modules in which an op that is not a lookup takes a matrix."""
    found: dict[Shape, set[str]] = {sides: set() for sides in wanted}
    for record in forward:
        if record.op not in LOOKUPS and record.op != RENORM and record.kind != "view":
            for meta in record.inputs:
                if len(meta.shape) == MATRIX and _sides(meta.shape) in wanted:
                    found[_sides(meta.shape)].add(record.module)
    return found


def _sides(shape: Shape) -> Shape:
    """Its sides in order of size: the same for a matrix and its transpose."""
    return tuple(sorted(shape))


def _taken(
    key: int, sides: Shape, taken: Mapping[Shape, set[str]], owned: Mapping[str, Mapping[Shape, Parameter]]
) -> bool:
    """Whether an op that is not a lookup took the table, or a tensor that may be it."""
    for path in taken[sides]:
        mine = [parameter.key for shape, parameter in owned.get(path, {}).items() if _sides(shape) == sides]
        if not mine or key in mine:
            return True
    return False
