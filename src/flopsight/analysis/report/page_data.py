"""The data of the report page: finished columns and tables, so that the page draws and does not compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import units
from ...results import caveats as doubts
from ...results.memory_curve import MemoryCurve
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, RECOMPUTE, Shape
from ..folding import alike
from ..tables import mark, op_totals, own_latencies, own_params

Value = float | int | None
MOST_OP_ROWS = 40_000
"""Operator rows by module up to which the page holds them; a larger profile shows operators of the whole only."""
ON_TIMES = (
    doubts.BusyMachine, doubts.CompiledWhole, doubts.CountedLive, doubts.Distorted, doubts.HeldBack, doubts.HostTimes,
    doubts.NotSplit, doubts.PaceChanged, doubts.PhasesApart, doubts.UnplacedKernels, doubts.UnsteadyModules, doubts.Window,
)  # fmt: skip
ON_COUNTS = (
    doubts.Assumed, doubts.CountedEager, doubts.CutOff, doubts.DirectForward, doubts.NoTwin, doubts.OtherThreads,
    doubts.Scripted, doubts.ShapesChanged, doubts.OtherPath, doubts.TwinWithoutAutocast,
)  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """A figure that every module has: how it is called, and how it is read from a node."""

    id: str
    label: str
    unit: str
    """How the page writes it: count, bytes, seconds, rate, intensity or share."""
    about: str
    total: Callable[[Node], Value]
    own: Callable[[Node], Value] | None = None
    adds: bool = True
    """Whether children add up to their parent, so that areas can show it."""
    shown: bool = True
    """Whether the table has it as a column from the beginning."""
    phase: str = ""
    """The phase that it belongs to; empty where it is about the module or the whole step."""


METRICS = (
    Metric("latency", "time", "seconds", "Forward time, submodules included", lambda n: n.latency,
           lambda n: own_latencies(n)[0], phase=FORWARD),
    Metric("backward_latency", "backward time", "seconds", "Time of the module's backward",
           lambda n: n.backward_latency, lambda n: own_latencies(n)[1], phase=BACKWARD),
    Metric("flops", "FLOPs", "count", "Forward floating-point operations", lambda n: n.flops, lambda n: n.own.flops, phase=FORWARD),
    Metric("backward_flops", "backward FLOPs", "count", "Floating-point operations of backward as autograd ran it",
           lambda n: n.backward.flops, lambda n: n.own.backward.flops, phase=BACKWARD),
    Metric("recompute_flops", "recompute FLOPs", "count", "Forward work that checkpointing did again",
           lambda n: n.recompute.flops, lambda n: n.own.recompute.flops, phase=RECOMPUTE),
    Metric("optimizer_flops", "optimizer FLOPs", "count", "Work of the optimizer on the module's parameters",
           lambda n: n.optimizer.flops, lambda n: n.own.optimizer.flops, shown=False, phase=OPTIMIZER),
    Metric("macs", "MACs", "count", "Forward multiply-accumulates of matrix work", lambda n: n.macs,
           lambda n: n.own.macs, shown=False, phase=FORWARD),
    Metric("params", "params", "count", "Elements of distinct parameter tensors", lambda n: n.params,
           own_params),
    Metric("active_params", "active params", "count", "Those of the parameters that one token passes: k of n experts",
           lambda n: n.active_params, lambda n: n.own_active_params),
    Metric("bytes", "bytes moved", "bytes", "Bytes that the forward's operators read and write, unfused",
           lambda n: n.forward.bytes, lambda n: n.own.bytes, shown=False, phase=FORWARD),
    Metric("activation_bytes", "saved", "bytes", "Bytes saved for backward, each storage once",
           lambda n: n.activation_bytes, lambda n: n.own_activation_bytes, phase=FORWARD),
    Metric("peak_bytes", "at the peak", "bytes", "Bytes alive at the step's peak that the module's operators made",
           lambda n: n.peak_bytes, lambda n: n.own_peak_bytes, shown=False),
    Metric("param_bytes", "param bytes", "bytes", "Bytes of the parameters", lambda n: n.param_bytes, shown=False),
    Metric("grad_bytes", "gradient bytes", "bytes", "Bytes of the gradients", lambda n: n.grad_bytes, shown=False, phase=BACKWARD),
    Metric("optimizer_bytes", "optimizer bytes", "bytes", "Bytes that the optimizer keeps", lambda n: n.optimizer_bytes,
           shown=False, phase=OPTIMIZER),
    Metric("comm_bytes", "communication", "bytes", "Bytes that the module's collectives send on a ring",
           lambda n: sum(row.wire_bytes for one in n.walk() for row in one.comm),
           lambda n: sum(row.wire_bytes for row in n.comm)),
    Metric("idle", "idle", "seconds", "Time between the module's kernels on the device", lambda n: n.idle, adds=False,
           shown=False, phase=FORWARD),
    Metric("rate", "FLOP/s", "rate", "Forward FLOPs over the module's time", lambda n: n.flops_per_second, adds=False,
           shown=False, phase=FORWARD),
)  # fmt: skip
"""What the page can show of a module, in the order of its columns."""


class Words:
    """Texts that repeat, kept once and named by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, a new one if it was not there."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


def report(
    profile: Profile, extra: Iterable[Metric] = (), bound: Sequence[str] = (), *, folded: bool = True
) -> dict[str, Any]:
    """Everything that the page draws of one profile.

    `extra` metrics follow our own, `bound` says what binds each module, `folded` runs of blocks are one row.
    """
    nodes = list(profile.walk())
    return {
        "modules": modules(nodes, (*_metrics(profile), *extra), bound, folded=folded),
        "operators": operators(profile),
        "memory": memory(profile, nodes),
        "timeline": timeline(profile),
        "caveats": [{"text": str(doubt), "touches": touches(doubt)} for doubt in profile.caveats],
    }


def _metrics(profile: Profile) -> list[Metric]:
    """Our own metrics; what one token passes of the parameters only where that is not all of them."""
    mixed = profile.active_params != profile.params
    return [metric for metric in METRICS if mixed or metric.id != "active_params"]


def modules(
    nodes: Sequence[Node], metrics: Iterable[Metric], bound: Sequence[str] = (), *, folded: bool = True
) -> dict[str, Any]:
    """The module tree as columns."""
    words = Words()
    words.number("")
    place = {id(node): number for number, node in enumerate(nodes)}
    parent = [-1] * len(nodes)
    for number, node in enumerate(nodes):
        for child in node.children:
            parent[place[id(child)]] = number
    return {
        "name": [node.name for node in nodes],
        "path": [node.path for node in nodes],
        "kind": [words.number(node.kind) for node in nodes],
        "input": [words.number(_shapes(node.input_shapes)) for node in nodes],
        "output": [words.number(_shapes(node.output_shapes)) for node in nodes],
        "extra": [words.number(node.extra_repr) for node in nodes],
        "mark": [words.number(mark(node)) for node in nodes],
        "bound": [words.number(word) for word in bound] or [0 for _ in nodes],
        "parent": parent,
        "calls": [node.calls for node in nodes],
        "alike": [[place[id(node)] for node in run] for run in alike(nodes[0])] if folded else [],
        "metrics": [column for metric in metrics if (column := _column(metric, nodes)) is not None],
        "ops": _ops(nodes, words),
        "words": words.texts,
    }


def _column(metric: Metric, nodes: Sequence[Node]) -> dict[str, Any] | None:
    """A metric with its values; None where no module has one."""
    total = [metric.total(node) for node in nodes]
    if not any(total):
        return None
    about = {"id": metric.id, "label": metric.label, "unit": metric.unit, "about": metric.about}
    column: dict[str, Any] = {
        **about,
        "adds": metric.adds,
        "shown": metric.shown,
        "phase": metric.phase,
        "total": total,
    }
    if metric.own is not None:
        column["own"] = [metric.own(node) for node in nodes]
    return column


def _ops(nodes: Sequence[Node], words: Words) -> dict[str, list[list[int]]]:
    if sum(len(node.ops) for node in nodes) > MOST_OP_ROWS:
        return {}
    return {
        str(number): [
            [words.number(row.op), words.number(row.phase), row.calls, row.cost.flops, row.cost.bytes, words.number(row.status), words.number(row.dtype)]
            for row in node.ops
        ]
        for number, node in enumerate(nodes)
        if node.ops
    }  # fmt: skip


def operators(profile: Profile) -> dict[str, Any] | None:
    """Every operator by phase, over the whole profile."""
    totals = op_totals(profile.root)
    if not totals:
        return None
    columns = [
        ("operator", "text"), ("phase", "text"), ("calls", "count"), ("time", "seconds"), ("MACs", "count"),
        ("FLOPs", "count"), ("bytes", "bytes"), ("FLOPs per byte", "intensity"), ("FLOP/s", "rate"), ("status", "text"),
    ]  # fmt: skip
    rows = [
        [one.op, one.phase, one.calls, one.seconds, one.cost.macs, one.cost.flops, one.cost.bytes,
         one.cost.flops / one.cost.bytes if one.cost.bytes else None,
         one.cost.flops / one.seconds if one.seconds else None, one.status]
        for one in totals
    ]  # fmt: skip
    return grid("Operators", *_known_columns(columns, rows))


def _known_columns(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]
) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    """The columns in which any row has a value."""
    known = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    return [columns[place] for place in known], [[row[place] for place in known] for row in rows]


def memory(profile: Profile, nodes: Sequence[Node]) -> dict[str, Any] | None:
    """What was alive at the peak by kind, and the modules that saved or held most; None where nothing is known."""
    held = [
        (number, node) for number, node in enumerate(nodes) if node.own_activation_bytes or node.own_peak_bytes
    ]  # fmt: skip
    if profile.peak_bytes is None and not held:
        return None
    held.sort(key=lambda pair: -(pair[1].own_activation_bytes + pair[1].own_peak_bytes))
    columns = [("module", "text"), ("class", "text"), ("saved by itself", "bytes"), ("at the peak", "bytes")]
    rows = [[node.path or node.kind, node.kind, node.own_activation_bytes, node.own_peak_bytes] for _, node in held]
    return {
        "peak": profile.peak_bytes,
        "kinds": profile.largest_at_peak,
        "curve": memory_curve(profile.memory_curve, nodes),
        "grid": grid("Modules that hold memory", columns, rows, [number for number, _ in held]) if held else None,
    }


def memory_curve(curve: MemoryCurve | None, nodes: Sequence[Node]) -> dict[str, Any] | None:
    """Memory over the step as columns, what lasts longest first; modules by their numbers, -1 where none ran."""
    if curve is None:
        return None
    numbers = {node.path: number for number, node in enumerate(nodes) if node.path != OUTSIDE}
    return {
        "at": curve.at,
        "kinds": list(curve.stacked),
        "bytes": [curve.kinds[kind] for kind in curve.stacked],
        "modules": [
            _nearest(path, numbers) if phase else -1 for path, phase in zip(curve.modules, curve.phases, strict=True)
        ],
        "phases": curve.phases,
        "peak": curve.highest,
    }


def _nearest(path: str, numbers: Mapping[str, int]) -> int:
    """The number of a module, or of the one above it that is shown; -1 for what ran outside every module."""
    while path not in numbers and path != OUTSIDE:
        path = path.rpartition(".")[0]
    return numbers.get(path, -1)


def timeline(profile: Profile) -> list[dict[str, Any]] | None:
    """The traced run as spans in lanes."""
    if not profile.timeline:
        return None
    return [
        {
            "name": span.name,
            "kind": span.kind,
            "begin": span.begin,
            "end": span.end,
            "lane": f"{span.kind == 'kernel'}{span.lane}",
        }
        for span in profile.timeline
    ]


def touches(doubt: doubts.Caveat) -> str:
    """Which numbers a caveat is about, in a word."""
    if isinstance(doubt, ON_TIMES):
        return "time"
    return "counts" if isinstance(doubt, ON_COUNTS) else ""


def grid(
    title: str,
    columns: Iterable[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    about_modules: Sequence[int] | None = None,
    about: str = "",
) -> dict[str, Any]:
    """A table of the page: titles with their units, rows, and for each row the module that it leads to."""
    page: dict[str, Any] = {
        "title": title,
        "columns": [{"label": label, "unit": unit} for label, unit in columns],
        "rows": [list(row) for row in rows],
    }
    if about:
        page["about"] = about
    if about_modules is not None:
        page["modules"] = list(about_modules)
    return page


def _shapes(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(units.shape, shapes))
