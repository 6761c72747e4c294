"""Records of collectives -> the communication rows of every module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..formulas.collective import exchanged
from ..results.comm import CommRow, GroupKey, wire_bytes
from ..results.records import OpRecord


def communication(
    records: Iterable[OpRecord], dims: Mapping[GroupKey, str]
) -> tuple[dict[str, tuple[CommRow, ...]], dict[str, tuple[CommRow, ...]]]:
    """By module, what it exchanges in every step and what it exchanged once; `dims` names the mesh dimension of groups."""
    found: defaultdict[str, dict[object, CommRow]] = defaultdict(dict)
    for record in records:
        for row in _rows(record, dims):
            key = row.key, row.holds
            rows = found[record.module]
            rows[key] = rows[key] + row if key in rows else row
    regular = {path: tuple(row for row in rows.values() if not row.setup) for path, rows in found.items()}
    once = {path: tuple(row for row in rows.values() if row.setup) for path, rows in found.items()}
    return regular, once


def _rows(record: OpRecord, dims: Mapping[GroupKey, str]) -> Iterable[CommRow]:
    facts = record.facts
    size = facts["group_size"]
    for op, calls, handed_in in exchanged(record):
        yield CommRow(
            op=op,
            phase=record.phase,
            calls=calls * record.count,
            bytes=handed_in * record.count,
            wire_bytes=wire_bytes(op, handed_in, size) * record.count,
            group_size=size,
            dim=dims.get(facts["group"], facts.get("dim")),
            setup=bool(facts.get("setup")),
            holds=tuple(facts.get("holds", ())),
        )
