"""The data of the report page: finished columns and tables, so that the page draws and does not compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ... import units
from ...results import caveats as doubts
from ...results.costs import known_sum
from ...results.memory_curve import MemoryCurve
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, OUTSIDE, Shape
from ..figures import Figure, shown
from ..folding import alike, folded_paths
from ..tables import mark, op_totals
from .page_graph import graph
from .page_step import ROW_KINDS, Step, step_of

MOST_OP_ROWS = 40_000
"""Operator rows by module up to which the page holds them; a larger profile shows operators of the whole only."""
ON_TIMES = (
    doubts.BusyMachine, doubts.CompiledWhole, doubts.CountedLive, doubts.CrowdedCores, doubts.Distorted, doubts.HeldBack,
    doubts.HostTimes, doubts.NotSplit, doubts.PaceChanged, doubts.PhasesApart, doubts.UnplacedKernels, doubts.UnsteadyModules, doubts.Window,
)  # fmt: skip
ON_COUNTS = (
    doubts.Assumed, doubts.CountedEager, doubts.CutOff, doubts.DirectForward, doubts.NoTwin, doubts.OtherThreads,
    doubts.Scripted, doubts.ShapesChanged, doubts.OtherPath, doubts.TwinWithoutAutocast,
)  # fmt: skip


PAGE_LABELS = {"latency": "forward time", "backward_latency": "backward time", "peak_bytes": "at the peak"}
"""What the page calls a figure of a module, if that is not its label."""
FIRST = ("flops", "backward_flops", "recompute_flops")
"""The columns that stand first; the others follow in the order of the book."""


class Words:
    """Texts that repeat, kept once and named by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """Every text, in the order of the numbers."""
        return list(self._numbers)

    def number(self, text: str) -> int:
        """The number of a text, a new one if it was not there."""
        return self._numbers.setdefault(text, len(self._numbers))


class Stacks:
    """The rows in which modules are drawn: blocks of a stack share one, whose path holds a range."""

    def __init__(self, *roots: Node, folded: bool = True) -> None:
        self.row: dict[str, str] = {}
        for root in roots:
            self.row |= folded_paths(root) if folded else {node.path: node.path for node in root.walk()}
        self._times = Counter(self.row.values())
        self._whole = roots[-1].kind

    def label(self, row: str, some: int | None = None) -> str:
        """What a row is called: its path, or the class of the whole model, how many modules share it, and if only `some` are meant."""
        times = self._times[row]
        part = f"{some} of " if some is not None and some < times else ""
        return f"{part}{row or self._whole}{f' x {times}' if times > 1 else ''}"


def report(
    profile: Profile, step: Step | None = None, first: Iterable[Figure] = (), bound: Sequence[str] = (), *,
    folded: bool = True, where: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Everything that the page draws of one profile.

    `step` has its rows, `first` figures precede those of the book, `bound` says what binds each row, `folded` runs of blocks are one row.
    `where` names the device that times are of if limits are another's.
    """
    step, stacks = step or step_of(profile), Stacks(profile.root, folded=folded)
    return {
        "modules": modules(step, (*first, *_metrics(profile, step)), bound, folded=folded),
        "operators": operators(profile, where),
        "memory": memory(profile, step.nodes, stacks),
        "graph": graph(profile.data_flow, step.nodes, stacks.row),
        "timeline": timeline(profile, stacks),
        "caveats": [{"text": str(doubt), "touches": touches(doubt)} for doubt in profile.caveats],
    }


def _metrics(profile: Profile, step: Step) -> list[Figure]:
    """The book's figures of a module; those that are all of another are left out."""
    figures = [figure for figure in shown("page") if not figure.part_of or figure.telling(profile) is not None]
    if not profile.trained:  # gradients that a training step would have are none of what ran
        figures = [figure for figure in figures if figure.phase != BACKWARD]
    if step.word == "forward":  # which is what the column of the time shows then
        figures = [figure for figure in figures if figure.key != "latency"]
    return sorted(figures, key=lambda figure: FIRST.index(figure.key) if figure.key in FIRST else len(FIRST))


def modules(step: Step, metrics: Iterable[Figure], bound: Sequence[str] = (), *, folded: bool = True) -> dict[str, Any]:
    """The module tree as columns."""
    words, nodes = Words(), step.nodes
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
        "mark": [words.number("" if node.path in ROW_KINDS else mark(node)) for node in nodes],
        "bound": [words.number(word) for word in bound] or [0 for _ in nodes],
        "parent": parent,
        "calls": [node.calls for node in nodes],
        "alike": [[place[id(node)] for node in run] for run in alike(nodes[0])] if folded else [],
        "metrics": [column for metric in metrics if (column := _column(metric, nodes)) is not None],
        "ops": _ops(nodes, words),
        "words": words.texts,
    }


def _column(figure: Figure, nodes: Sequence[Node]) -> dict[str, Any] | None:
    """A figure with its values; None if no module has one."""
    total = [figure.of_node(node) for node in nodes] if figure.of_node else []
    if not any(total):
        return None
    column: dict[str, Any] = {
        "id": figure.key,
        "label": PAGE_LABELS.get(figure.key, figure.label),
        "unit": figure.unit,
        "about": figure.about[:1].upper() + figure.about[1:],
        "adds": figure.adds,
        "shown": "open" in figure.views.split(),
        "phase": figure.phase,
        "total": total,
    }
    if figure.of_own is not None:
        column["own"] = [figure.of_own(node) for node in nodes]
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


def operators(profile: Profile, where: str = "") -> dict[str, Any] | None:
    """Every operator by phase, over the whole profile; `where` is the device of the times if limits are of another device."""
    totals = op_totals(profile.root)
    if not totals:
        return None
    columns = [
        ("operator", "text"), ("phase", "text"), ("calls", "count"), (f"time on {where}" if where else "time", "seconds"), ("MACs", "count"),
        ("FLOPs", "count"), ("bytes", "bytes"), ("FLOPs per byte", "intensity"), ("FLOP/s", "rate"), ("status", "text"),
    ]  # fmt: skip
    rows = [
        [one.op, one.phase, one.calls, one.seconds, one.cost.macs, one.cost.flops, one.cost.bytes,
         one.cost.flops / one.cost.bytes if one.cost.bytes else None,
         one.cost.flops / one.seconds if one.seconds else None, one.status]
        for one in totals
    ]  # fmt: skip
    return grid("Operators", *known_columns(columns, rows))


def known_columns(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]
) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    """The columns in which any row has a value."""
    known = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    return [columns[place] for place in known], [[row[place] for place in known] for row in rows]


def memory(profile: Profile, nodes: Sequence[Node], stacks: Stacks) -> dict[str, Any] | None:
    """What was alive at the peak by kind, and the modules that saved or held most; None if nothing is known."""
    held = [node for node in nodes if node.own_activation_bytes or node.own_peak_bytes]
    if profile.peak_bytes is None and not held:
        return None
    columns = [("module", "text"), ("class", "text"), ("saved by itself", "bytes"), ("at the peak", "bytes")]
    sizes = {node.path: (node.own_activation_bytes, node.own_peak_bytes) for node in held}
    rows = [(node.path, sum(sizes[node.path]), (node.kind, *sizes[node.path])) for node in held]
    return {
        "peak": profile.peak_bytes,
        "kinds": profile.largest_at_peak,
        "curve": memory_curve(profile.memory_curve, nodes),
        "grid": by_stack("Modules that hold memory", columns, rows, stacks) if held else None,
    }


def memory_curve(curve: MemoryCurve | None, nodes: Sequence[Node]) -> dict[str, Any] | None:
    """Memory over the step as columns, what lasts longest first; modules by their numbers, -1 if none ran."""
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


def timeline(profile: Profile, stacks: Stacks) -> dict[str, Any] | None:
    """The traced run as columns: what ran, when, on which thread or stream, in which phase and module."""
    if not profile.timeline:
        return None
    words = Words()
    spans = [
        [words.number(span.name), words.number(span.kind), span.begin, span.end, span.lane, words.number(span.phase), words.number(span.path)]
        for span in profile.timeline
    ]  # fmt: skip
    rows = {path: stacks.row[path] for path in {span.path for span in profile.timeline} & stacks.row.keys()}
    return {"words": words.texts, "spans": spans, "rows": rows}


def touches(doubt: doubts.Caveat) -> str:
    """Which numbers a caveat is about, in a word."""
    if isinstance(doubt, ON_TIMES):
        return "time"
    return "counts" if isinstance(doubt, ON_COUNTS) else ""


SUMMED = ("count", "bytes", "seconds")
"""Units of columns whose values of several modules add up."""


def by_stack(
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[tuple[str, float, Sequence[Any]]],
    stacks: Stacks,
    about: str = "",
) -> dict[str, Any]:
    """A table of rows about modules: path, weight, cells. Rows of a stack that differ in sums alone are one; the heaviest come first."""
    adds = [unit in SUMMED for _, unit in columns[1:]]
    found: dict[tuple[Any, ...], tuple[float, Sequence[Any]]] = {}
    meant: dict[tuple[Any, ...], set[str]] = {}
    for path, weight, cells in rows:
        key = (stacks.row.get(path, path), *(cell for cell, sums in zip(cells, adds, strict=True) if not sums))
        meant.setdefault(key, set()).add(path)
        so_far, before = found.get(key, (0.0, [None] * len(cells)))
        both = zip(before, cells, adds, strict=True)
        found[key] = so_far + weight, [known_sum(pair) if sums else pair[1] for *pair, sums in both]
    order = sorted(found, key=lambda key: -abs(found[key][0]))
    named = [[stacks.label(key[0], len(meant[key])), *found[key][1]] for key in order]
    return grid(title, columns, named, [key[0] for key in order], about)


def grid(
    title: str,
    columns: Iterable[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    about_modules: Sequence[str] | None = None,
    about: str = "",
) -> dict[str, Any]:
    """A table of the page: titles with their units, rows, and for each row the path of the row of modules that it leads to."""
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
