"""Records -> profile tree: price every record, put it into its row, and keep the ledger of what is not known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..formulas import COUNTED, UNKNOWN, Priced, price
from ..formulas.collective import exchanged
from ..results.caveats import BadFormula, Caveat, UnknownOps
from ..results.comm import CommRow, GroupKey, wire_bytes
from ..results.costs import ACROSS, Cost, OpRow, Phases, summed
from ..results.coverage import Coverage, UnknownOp
from ..results.node import Node
from ..results.records import OUTSIDE, ModuleCall, ModuleRow, OpRecord, Shape
from .routing import parent, with_uses

MOST_SHAPES = 8
"""Distinct input shapes kept with an op row."""
MOST_MODULES = 8
"""Modules named with an unknown op."""


@dataclass(frozen=True)
class Observed:
    """What one counted run of a model showed: the input to `build`. Times come later, with `with_times`."""

    rows: tuple[ModuleRow, ...]
    """Parents before children, the root first, its path the empty string."""
    records: Iterable[OpRecord] = ()
    calls: Iterable[ModuleCall] = ()
    views: Mapping[str, int] = field(default_factory=dict)
    saved_bytes: Mapping[str, int] = field(default_factory=dict)
    allocated_bytes: Mapping[str, int] = field(default_factory=dict)
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    dims: Mapping[GroupKey, str] = field(default_factory=dict)
    """Names of mesh dimensions by the name of their process group."""
    ignored: Callable[[ModuleRow], bool] = lambda _row: False


def build(seen: Observed) -> tuple[Node, Coverage, tuple[Caveat, ...]]:
    """The module tree, the coverage ledger, and the doubts that pricing raised."""
    records = tuple(seen.records)
    ledger = _Ledger(records, seen)
    calls = {call.module: call for call in seen.calls}
    rows, doubts = with_uses(seen.rows, records, calls)
    if OUTSIDE in ledger.ops or any(OUTSIDE in rows for rows in ledger.comm):
        rows = (*rows, ModuleRow(OUTSIDE, OUTSIDE, ""))
    ignored: dict[str, bool] = {}
    for row in rows:
        ignored[row.path] = ignored.get(parent(row.path), False) or seen.ignored(row)
    below: defaultdict[str, list[Node]] = defaultdict(list)
    for row in reversed(rows):  # children before their parents: a model may nest deeper than Python recurses
        call, children = calls.get(row.path, ModuleCall(row.path, 0)), tuple(reversed(below.pop(row.path, [])))
        made = _node(row, call, children, ledger, seen, ignored=ignored[row.path])
        if row is not rows[0]:
            below[parent(row.path)].append(made)
    return made, ledger.coverage(), (*ledger.caveats(), *doubts)


def _node(
    row: ModuleRow, call: ModuleCall, children: tuple[Node, ...], ledger: _Ledger, seen: Observed, *, ignored: bool
) -> Node:
    return Node(
        path=row.path,
        name=row.name,
        kind=row.kind,
        own=Phases() if ignored else ledger.phases(row.path),
        children=children,
        parameters=row.parameters,
        calls=call.calls,
        input_shapes=_shapes(call.inputs),
        output_shapes=_shapes(call.outputs),
        input_bytes=sum(meta.nbytes for meta in call.inputs),
        output_bytes=sum(meta.nbytes for meta in call.outputs),
        own_activation_bytes=0 if ignored else seen.saved_bytes.get(row.path, 0),
        allocated_bytes=seen.allocated_bytes.get(row.path),
        own_peak_bytes=0 if ignored else seen.peak_bytes.get(row.path, 0),
        packed_bytes=row.packed_bytes,
        ops=() if ignored else ledger.rows(row.path),
        comm=() if ignored else ledger.comm[0].get(row.path, ()),
        setup_comm=() if ignored else ledger.comm[1].get(row.path, ()),
        extra_repr=row.extra_repr,
        ignored=ignored,
    )


def _shapes(metas: Iterable[object]) -> tuple[Shape, ...]:
    return tuple(meta.shape for meta in metas)  # type: ignore[attr-defined]


def _dtype(record: OpRecord) -> str:
    """The dtype that a call's arithmetic ran in."""
    return next((meta.dtype for meta in record.inputs if meta.is_real_number or record.kind == "matrix"), "")


def _layout(record: OpRecord) -> str:
    """How the input of a convolution over images lies in memory, or that a softmax does not run over the last dimension."""
    if not record.inputs:
        return ""
    if "softmax" in record.op:
        dim, last = record.args.get("dim"), len(record.inputs[0].shape) - 1
        return ACROSS if isinstance(dim, int) and dim not in (-1, last) else ""
    if "conv" not in record.op:
        return ""
    shape, stride = record.inputs[0].shape, record.inputs[0].stride
    if stride is None or len(shape) != 4 or shape[1] == 1 or shape[2] * shape[3] == 1:
        return ""
    return "channels_last" if stride[1] == 1 else "channels_first"


class _Ledger:
    """Every record with its price, by module."""

    def __init__(self, records: Iterable[OpRecord], seen: Observed) -> None:
        exchanges: list[OpRecord] = []
        self.ops: defaultdict[str, dict[tuple[object, ...], OpRow]] = defaultdict(dict)
        self._counted: Counter[str] = Counter()
        self._free: Counter[str] = Counter(seen.views)
        self._unknown: dict[str, UnknownOp] = {}
        self._bytes_known = 0
        known: dict[tuple[object, ...], tuple[OpRecord, Priced, str, tuple[Shape, ...]]] = {}
        for record in records:
            if "group_size" in record.facts:
                exchanges.append(record)
                if record.facts.get("setup"):
                    continue  # it is not part of a step
            # Equal calls share these objects. The cache holds a record that has them, so that no id is used again.
            key = (record.op, record.overload, record.kind, id(record.args), id(record.outputs), id(record.facts))
            if key not in known:
                known[key] = (record, price(record), _dtype(record), _shapes(record.inputs))
            self._enter(record, *known[key][1:])
        self.comm = communication(exchanges, seen.dims)
        """Communication by module: of every step, and of the first ones."""

    def _enter(self, record: OpRecord, priced: Priced, dtype: str, shapes: tuple[Shape, ...]) -> None:
        cost = priced.cost * record.count if record.count > 1 else priced.cost
        if priced.status == UNKNOWN:
            self._miss(record, priced, cost)
        else:
            self._bytes_known += cost.bytes
            (self._counted if priced.status == COUNTED else self._free)[record.op] += record.count
        repeated, again = (record.count, cost.bytes) if record.facts.get("repeated") else (0, 0)
        rows, key = self.ops[record.module], (record.op, record.phase, dtype, priced.status, priced.cost.intensity_step)
        before = rows.get(key)
        shown = () if before is not None and len(before.shapes) >= MOST_SHAPES else (shapes,)
        row = OpRow(
            record.op,
            record.phase,
            record.count,
            cost,
            priced.status,
            shown,
            dtype,
            kind=record.kind,
            layout="" if before is not None else _layout(record),
            repeated=repeated,
            repeated_bytes=again,
        )
        rows[key] = row if before is None else before + row

    def _miss(self, record: OpRecord, priced: Priced, cost: Cost) -> None:
        before = self._unknown.get(record.op, UnknownOp(0, why=priced.why, failed=priced.failed))
        modules = before.modules
        if record.module not in modules and len(modules) < MOST_MODULES:
            modules = (*modules, record.module)
        self._unknown[record.op] = replace(
            before, calls=before.calls + record.count, modules=modules, bytes=before.bytes + cost.bytes
        )

    def phases(self, path: str) -> Phases:
        """What ran in a module itself, by phase; unknown ops add the bytes they surely move, no FLOPs."""
        return Phases(**summed((row.phase, row.cost) for row in self.ops[path].values()))

    def rows(self, path: str) -> tuple[OpRow, ...]:
        """The op rows of a module, heaviest first."""
        return tuple(sorted(self.ops[path].values(), key=lambda row: (-row.cost.flops, -row.calls, row.op)))

    def coverage(self) -> Coverage:
        """Counted, free and unknown calls by op."""
        return Coverage(dict(self._counted), dict(self._free), dict(self._unknown), self._bytes_known)

    def caveats(self) -> tuple[Caveat, ...]:
        """The doubts: ops without a formula, and formulas that failed."""
        failed = [BadFormula(op, miss.why) for op, miss in self._unknown.items() if miss.failed]
        names = tuple(op for op, miss in self._unknown.items() if not miss.failed)
        missing = [UnknownOps(names, sum(self._unknown[op].calls for op in names))] if names else []
        return (*missing, *failed)


def communication(
    records: Iterable[OpRecord], dims: Mapping[GroupKey, str]
) -> tuple[dict[str, tuple[CommRow, ...]], dict[str, tuple[CommRow, ...]]]:
    """By module, what it exchanges in every step and what it exchanged once; `dims` names the mesh dimension of groups."""
    rows = summed(((record.module, row.key, row.holds), row) for record in records for row in _rows(record, dims))
    regular: dict[str, tuple[CommRow, ...]] = {}
    once: dict[str, tuple[CommRow, ...]] = {}
    for (path, *_), row in rows.items():
        found = once if row.setup else regular
        found[path] = (*found.get(path, ()), row)
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
