"""Times are a pass over a finished tree: costs stay as they are, every record is priced once."""

from __future__ import annotations

from flopsight.analysis.build import Observed, build
from flopsight.analysis.times import with_times
from flopsight.formulas import FORMULAS
from flopsight.results.costs import Cost, Phases
from flopsight.results.node import Node
from flopsight.results.records import ModuleRow, OpRecord, TensorMeta


def model() -> Node:
    """A list of two layers, which is never called itself, below a root."""
    layers = tuple(Node(f"layers.{i}", str(i), "Linear", own=Phases(forward=Cost(macs=64))) for i in range(2))
    return Node("", "", "Model", children=(Node("layers", "layers", "ModuleList", children=layers),))


def test_a_measured_row_shows_its_own_seconds_and_a_container_the_sum_of_its_children() -> None:
    timed = with_times(model(), {"": 5.0, "layers.0": 1.0, "layers.1": 2.5}, {"layers.1": 4.0})

    layers = timed.children[0]
    assert timed.latency == 5.0
    assert layers.latency == 1.0 + 2.5
    assert [layer.latency for layer in layers.children] == [1.0, 2.5]
    assert [layer.backward_latency for layer in layers.children] == [None, 4.0]
    assert timed.backward_latency == 4.0


def test_the_times_of_host_and_streams_are_those_that_were_measured_and_no_sums() -> None:
    timed = with_times(model(), {"layers.0": 1.0}, host={"layers.0": 3.0}, streams={"layers.0": 1.5})

    first = timed.children[0].children[0]
    assert (first.host_latency, first.stream_latency) == (3.0, 1.5)
    assert (timed.host_latency, timed.stream_latency) == (None, None)


def test_times_change_no_cost() -> None:
    assert with_times(model(), {"": 1.0}).macs == 2 * 64


def record(width: int, module: str = "") -> OpRecord:
    left, right = TensorMeta((1, 1)), TensorMeta((1, width))
    return OpRecord("aten.mm", args={"self": left, "mat2": right}, outputs=(right,), kind="matrix", module=module)


def test_records_may_come_from_a_generator_that_keeps_none_of_them() -> None:
    rows = (ModuleRow("", "", "recording"),)

    root, _, _ = build(Observed(rows, records=(record(width) for width in range(200))))

    assert root.macs == sum(range(200)) == 19_900


def test_a_call_in_several_modules_is_priced_once() -> None:
    calls = []
    plain = FORMULAS["aten.mm"]
    shared = record(3)
    rows = (ModuleRow("", "", "Model"), ModuleRow("a", "a", "Linear"), ModuleRow("b", "b", "Linear"))

    FORMULAS["aten.mm"] = lambda call: calls.append(call.op) or plain(call)  # type: ignore[func-returns-value]
    try:
        root, _, _ = build(Observed(rows, records=[shared.at(path, "forward", 2) for path in ("a", "b")]))
    finally:
        FORMULAS["aten.mm"] = plain

    assert calls == ["aten.mm"]
    assert root.macs == 2 * 2 * 3
