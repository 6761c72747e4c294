"""The book of figures: every figure once, with its names, its unit and how it is read; all views draw from it.

To add a figure, write its entry in `BOOK` and name the views that show it. `docs/figures.md` is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from .. import units
from ..errors import check_known
from ..results.node import Node
from ..results.profile import Profile
from ..results.records import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTE
from ..results.timings import Stat

Value = float | int | None

VIEWS = {
    "rows": "tree, table, Markdown, LaTeX and notebook, a row a module",
    "memory": "the memory view",
    "csv": "CSV and data frames",
    "page": "the report page",
    "open": "the report page, as a column from the beginning",
    "diff": "comparisons and budgets of a whole model",
    "module": "comparisons module by module",
    "models": "several models side by side",
    "sweep": "sweeps, a row a point",
    "served": "sweeps on a named device, and those of generations, a row a point",
    "ranks": "jobs, a row a rank",
    "log": "experiment trackers",
}
"""Where figures are shown; an entry of the book names these words."""


@dataclass(frozen=True)
class Unit:
    """How the values of a unit are written and read."""

    text: Callable[[float], str]
    parse: Callable[[str | float], float]


UNITS = {
    "count": Unit(units.si, units.parse_quantity),
    "bytes": Unit(units.size, units.parse_quantity),
    "seconds": Unit(units.seconds, units.parse_time),
    "rate": Unit(units.si, units.parse_quantity),
    "samples/s": Unit(units.si, units.parse_quantity),
    "tokens/s": Unit(units.si, units.parse_quantity),
    "share": Unit(units.percent, units.parse_share),
    "answer": Unit(lambda value: "yes" if value else "no", units.parse_quantity),
}


@dataclass(frozen=True)
class Figure:
    """One figure: what it is called, what it is, and how it is read. A job or a sweep reads it from its profiles."""

    key: str
    """Its name in code, files and budgets."""
    label: str
    unit: str
    """A name in `UNITS`."""
    about: str
    """What it is, so that it can follow the label and a colon."""
    of_profile: Callable[[Profile], Value] | None = None
    """The value of a whole model; it returns None if the profile does not have it."""
    of_node: Callable[[Node], Value] | None = None
    """The value of a module with its submodules."""
    of_own: Callable[[Node], Value] | None = None
    """The value of a module without its submodules."""
    head: str = ""
    """The head of a narrow column, if that is not the label."""
    title: str = ""
    """The label if nothing beside it says of which phase it is."""
    views: str = ""
    """The views that show it: words of `VIEWS`."""
    phase: str = ""
    """The phase that it covers; empty if it is about the module itself or the whole step."""
    adds: bool = True
    """Whether submodules add up to their module."""
    part_of: str = ""
    """The figure that it is a part of: it is left out if it is all of that."""
    trained: bool = False
    """Whether it is left out of views of runs without a backward."""

    @property
    def short(self) -> str:
        """What a narrow column is headed with."""
        return self.head or self.label

    @property
    def full(self) -> str:
        """What it is called if nothing beside it says of which phase it is."""
        return self.title or self.label

    @property
    def is_time(self) -> bool:
        """Whether it depends on a clock: then it depends on the machine too and is never the same twice."""
        return self.unit not in ("count", "bytes", "answer")

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is the better one."""
        return self.is_time and self.unit != "seconds"

    def text(self, value: float) -> str:
        """A value with its unit, three digits."""
        return UNITS[self.unit].text(value)

    def read(self, profile: Profile) -> Value:
        """The value of a whole model; None if the profile does not have it."""
        return self.of_profile(profile) if self.of_profile else None

    def telling(self, profile: Profile) -> Value:
        """The same, but None if it says nothing new: it equals the figure that it is a part of, or no backward ran."""
        value = self.read(profile)
        if (self.trained and not profile.trained) or (self.part_of and value == BOOK[self.part_of].read(profile)):
            return None
        return value


def own_params(node: Node) -> int:
    """Elements of the distinct parameter tensors that the module itself owns."""
    return sum({parameter.key: parameter.numel for parameter in node.parameters}.values())


def own_seconds(node: Node, time: str = "latency") -> float | None:
    """A time without that of the submodules: never below zero, though clocks are not exact."""
    whole: float | None = getattr(node, time)
    if whole is None:
        return None
    return max(0.0, whole - sum(getattr(child, time) or 0.0 for child in node.children))


def _whole(path: str) -> Callable[[Profile], Value]:
    """A reader of an attribute that only a training step has."""
    read = attrgetter(path)
    return lambda profile: read(profile) if profile.trained else None


def _median(path: str) -> Callable[[Profile], Value]:
    read: Callable[[Profile], Stat | None] = attrgetter(f"timing.{path}")

    def median(profile: Profile) -> Value:
        stat = read(profile)
        return stat.median if stat else None

    return median


def _work(key: str, label: str, about: str, phase: str, what: str = "flops", **more: str | bool) -> Figure:
    """The work of one phase of a training step."""
    of = f"{phase}.{what}"
    return Figure(key, label, "count", about, _whole(of), attrgetter(of), attrgetter(f"own.{of}"), phase=phase, **more)  # type: ignore[arg-type]


def _time(key: str, label: str, about: str, stat: str, **more: str) -> Figure:
    """A time that only the whole has."""
    return Figure(key, label, "seconds", about, _median(stat), **more)  # type: ignore[arg-type]


def _same(key: str) -> tuple[Callable[[Profile], Value], Callable[[Node], Value]]:
    """Readers of an attribute that profiles and nodes both have."""
    return attrgetter(key), attrgetter(key)


_ALL = (
    Figure("calls", "calls", "count", "how often it was called", None, attrgetter("calls"), attrgetter("calls"), adds=False, views="module"),
    Figure("params", "params", "count", "elements of distinct parameter tensors", *_same("params"), own_params, title="parameters",
           views="rows csv page open diff module models sweep ranks log"),
    Figure("active_params", "active params", "count", "those of the parameters that one token passes: k of n experts", *_same("active_params"),
           attrgetter("own_active_params"), head="active", part_of="params", views="rows csv page open diff models sweep ranks log"),
    Figure("trainable_params", "trainable params", "count", "those of the parameters that require a gradient", *_same("trainable_params"),
           views="csv diff"),
    Figure("param_bytes", "param bytes", "bytes", "its parameters", attrgetter("root.param_bytes"), attrgetter("param_bytes"), head="params",
           views="memory csv page diff"),
    Figure("macs", "MACs", "count", "forward multiply-accumulates of matrix work", *_same("macs"), attrgetter("own.macs"), title="forward MACs",
           phase=FORWARD, views="rows csv page diff module models sweep ranks log"),
    Figure("flops", "FLOPs", "count", "forward floating-point operations", *_same("flops"), attrgetter("own.flops"), title="forward FLOPs",
           phase=FORWARD, views="rows csv page open diff module models sweep log"),
    Figure("bytes", "bytes moved", "bytes", "bytes that the forward's operators read and write, unfused", *_same("forward.bytes"),
           attrgetter("own.bytes"), phase=FORWARD, views="csv page diff sweep"),
    _work("backward_macs", "backward MACs", "multiply-accumulates of backward as autograd ran it", BACKWARD, "macs", views="csv"),
    _work("backward_flops", "backward FLOPs", "floating-point operations of backward as autograd ran it", BACKWARD, head="backward",
          views="csv page open diff module models sweep log"),
    Figure("backward_pass_flops", "backward and recompute FLOPs", "count", "work of the backward pass, what checkpointing did again included",
           lambda p: p.backward.flops + p.recompute.flops if p.trained else None, lambda n: n.backward.flops + n.recompute.flops,
           lambda n: n.own.backward.flops + n.own.recompute.flops, head="backward", phase=BACKWARD, views="rows"),
    _work("recompute_flops", "recompute FLOPs", "forward work that checkpointing did again", RECOMPUTE, views="csv page open diff module log"),
    _work("optimizer_flops", "optimizer FLOPs", "work of the optimizer on the module's parameters", OPTIMIZER, views="csv page diff"),
    Figure("step_flops", "FLOPs of the step", "count", "floating-point operations of all phases that ran", attrgetter("root.total.total.flops"),
           attrgetter("total.total.flops"), attrgetter("own.total.flops"), views="ranks"),
    Figure("own_macs", "own MACs", "count", "forward MACs without the submodules'", None, attrgetter("own.macs"), adds=False, phase=FORWARD,
           views="csv"),
    Figure("own_flops", "own FLOPs", "count", "forward FLOPs without the submodules'", None, attrgetter("own.flops"), adds=False, phase=FORWARD,
           views="csv"),
    Figure("own_bytes", "own bytes moved", "bytes", "bytes moved in forward without the submodules'", None, attrgetter("own.bytes"), adds=False,
           phase=FORWARD, views="csv"),
    Figure("activation_bytes", "saved", "bytes", "activations kept for backward, each for the module that saved it first",
           *_same("activation_bytes"), attrgetter("own_activation_bytes"), phase=FORWARD, trained=True,
           views="rows memory csv page open diff module models sweep log"),
    Figure("allocated_bytes", "allocated", "bytes", "growth of memory during its forward", None, attrgetter("allocated_bytes"), phase=FORWARD,
           views="memory csv"),
    Figure("grad_bytes", "gradient bytes", "bytes", "gradients of those that are trained", None, attrgetter("grad_bytes"), head="gradients",
           phase=BACKWARD, views="memory csv page"),
    Figure("optimizer_bytes", "optimizer bytes", "bytes", "what the optimizer keeps for them", None, attrgetter("optimizer_bytes"),
           head="optimizer", phase=OPTIMIZER, views="memory csv page"),
    Figure("peak_bytes", "peak memory", "bytes", "most memory alive at once; of a module, what its ops made of it", *_same("peak_bytes"), attrgetter("own_peak_bytes"),
           head="peak", views="memory csv page diff models sweep ranks log"),
    Figure("comm_bytes", "communication", "bytes", "bytes that its collectives send on a ring",
           lambda p: sum(row.wire_bytes for row in p.comm), lambda n: sum(row.wire_bytes for one in n.walk() for row in one.comm),
           lambda n: sum(row.wire_bytes for row in n.comm), head="sent", title="sent", views="page open ranks"),
    Figure("unknown_calls", "unknown op calls", "count", "op calls that no figure includes", attrgetter("coverage.unknown_calls"), views="diff"),
    Figure("latency", "latency", "seconds", "time of the forward, submodules included", _median("forward"), attrgetter("latency"), own_seconds,
           title="forward latency", phase=FORWARD, views="rows csv page diff models sweep log"),
    Figure("backward_latency", "backward latency", "seconds", "time of the module's backward", _median("backward"), attrgetter("backward_latency"),
           lambda n: own_seconds(n, "backward_latency"), head="bwd latency", phase=BACKWARD, views="rows csv page diff log"),
    Figure("host_latency", "host latency", "seconds", "on a device, the time the host took to hand the forward over", None,
           attrgetter("host_latency"), phase=FORWARD, views="csv"),
    Figure("stream_latency", "stream latency", "seconds", "on a device, from the forward's first kernel to the end of its last", None,
           attrgetter("stream_latency"), adds=False, phase=FORWARD, views="csv"),
    Figure("idle", "idle", "seconds", "time between the module's kernels on the device", None, attrgetter("idle"), adds=False, phase=FORWARD,
           views="csv page"),
    _time("optimizer_latency", "optimizer latency", "time of the optimizer's step", "optimizer", phase=OPTIMIZER, views="log"),
    _time("step_latency", "step latency", "time of a training step as one piece", "step", head="step", views="diff models log"),
    _time("iteration_latency", "iteration latency", "from the beginning of one step of a loop to the next", "iteration", views="log"),
    _time("data_wait", "waiting for data", "what a loop waits for its next batch", "data_wait", views="log"),
    _time("time", "time of a step", "time of a whole step, or of the forward if no step was timed", "whole", head="time", views="ranks"),
    Figure("flops_per_second", "FLOP/s", "rate", "forward FLOPs over the module's time", None, attrgetter("flops_per_second"), adds=False,
           phase=FORWARD, views="csv page"),
    Figure("wall_flops_per_second", "wall FLOP/s", "rate", "forward FLOPs over the time that passed, waiting between kernels included", None,
           attrgetter("wall_flops_per_second"), adds=False, phase=FORWARD, views="csv"),
    Figure("throughput", "samples/s", "samples/s", "samples of whole steps, or of forwards if no step was timed", attrgetter("throughput"),
           views="diff models log"),
    Figure("tokens_per_second", "tokens/s", "tokens/s", "tokens, like samples/s", attrgetter("tokens_per_second"), views="sweep log"),
    Figure("mfu", "MFU", "share", "model FLOPs utilization: the model's matrix work over what the device could do in that time",
           attrgetter("mfu"), views="models log"),
    Figure("hfu", "HFU", "share", "hardware FLOPs utilization: the same with what was recomputed", attrgetter("hfu"), views="log"),
    Figure("cache_bytes", "KV cache", "bytes", "keys, values and states that all sequences keep at the end", views="served"),
    Figure("fits", "fits", "answer", "whether the peak fits the memory of the named device", views="served"),
    Figure("least_time", "least time", "seconds", "the limit of a step on the named device: no kernel can be faster", head="least", views="served"),
    Figure("first_token", "least time to first token", "seconds", "the limit of the prompts of the batch", head="first token, least", views="served"),
    Figure("predicted_first_token", "predicted time to first token", "seconds", "the same by shares that kernels reach", head="predicted",
           views="served"),
    Figure("measured_first_token", "measured time to first token", "seconds", "wall time of the prompts", head="measured", views="served"),
    Figure("per_output_token", "least time per output token", "seconds", "the limit of a step, the mean over the new tokens", head="step, least",
           views="served"),
    Figure("predicted_per_output_token", "predicted time per output token", "seconds", "the same by shares that kernels reach",
           head="predicted", views="served"),
    Figure("measured_per_output_token", "measured time per output token", "seconds", "wall time of all new tokens over their number",
           head="measured", views="served"),
    Figure("most_tokens_per_second", "most tokens/s", "tokens/s", "new tokens of the batch a second, if a step takes its least time", views="served"),
    Figure("measured_tokens_per_second", "measured tokens/s", "tokens/s", "new tokens of the batch a second, measured", views="served"),
)  # fmt: skip
BOOK = {figure.key: figure for figure in _ALL}
"""Every figure by its key, in the order in which views show them."""


def shown(view: str) -> list[Figure]:
    """The figures that a view shows."""
    return [figure for figure in BOOK.values() if view in figure.views.split()]


def figure(name: str) -> Figure:
    """The figure of that name that can be compared and budgeted, or one sentence that names those there are."""
    check_known(name, [one.key for one in shown("diff")], f"There is no figure {name!r}", "Figures:")
    return BOOK[name]
