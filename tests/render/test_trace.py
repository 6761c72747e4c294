"""The timeline as Chrome and Perfetto read it."""

import json

import pytest

from flopsight.errors import InputError
from flopsight.results.costs import Cost, Phases
from flopsight.results.node import Node
from flopsight.results.profile import Profile
from flopsight.results.records import Span


def drawn(*spans):
    root = Node("", "", "Net", children=(Node("a", "a", "Linear", own=Phases(Cost(5)), input_shapes=((2, 3),)),))
    return json.loads(Profile(root, timeline=spans).render("trace"))["traceEvents"]


def test_spans_become_complete_events_in_microseconds_with_costs_in_their_arguments():
    events = drawn(
        Span("a", "module", 1000, 5000, 7, "a"), Span("aten::mm", "op", 2000, 4000, 7, "a", ((2, 3), (3, 4)))
    )

    module, op = (event for event in events if event["ph"] == "X")
    assert (module["ts"], module["dur"], module["tid"]) == (1, 4, 7)
    assert (module["args"]["macs"], module["args"]["flops"], module["args"]["inputs"]) == (5, 10, [[2, 3]])
    assert op["args"] == {"module": "a", "shapes": [[2, 3], [3, 4]]}
    assert (op["pid"], op["tid"]) == (module["pid"], module["tid"])  # the same track, so that the viewer nests them


def test_a_module_that_is_called_several_times_shows_the_costs_of_one_call():
    work = Phases(Cost(3 * 5, 3 * 10 + 1))
    root = Node("", "", "Net", children=(Node("a", "a", "Linear", work, calls=3, input_shapes=((2, 3),)),), calls=1)
    each = (Span("a", "module", begin, begin + 9, 7, "a") for begin in (0, 10, 20))
    whole = Span("Net", "module", 0, 90, 7, "")

    events = json.loads(Profile(root, timeline=(whole, *each)).render("trace"))["traceEvents"]

    spans = [event["args"] for event in events if event["ph"] == "X"]
    assert (spans[0]["calls"], spans[0]["macs"], spans[0]["flops"]) == (1, 15, 31)
    assert spans[1] == spans[2] == spans[3]
    assert (spans[1]["calls"], spans[1]["macs"], spans[1]["flops"]) == (3, 5, 31 / 3)
    assert spans[1]["inputs"] == [[2, 3]]


def test_a_span_of_work_done_again_in_backward_shows_the_forward_that_it_repeats():
    root = Node("", "", "Net", children=(Node("a", "a", "Linear", own=Phases(Cost(5), recompute=Cost(3)), calls=1),))
    spans = (Span("a", "module", 0, 9, 7, "a"), Span("a", "module", 20, 25, 7, "a"))

    events = json.loads(Profile(root, timeline=spans).render("trace"))["traceEvents"]

    assert [event["args"]["macs"] for event in events if event["ph"] == "X"] == [5, 5]


def test_kernels_have_a_track_of_their_own():
    events = drawn(Span("a", "module", 0, 10, 7, "a"), Span("gemm", "kernel", 20, 30, 7, "a"))

    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    kernel = next(event for event in events if event.get("cat") == "kernel")
    assert names[kernel["pid"]] == "device"


STEP = (
    Span("Net", "module", 0, 40, 7, ""),
    Span("aten::mm", "op", 10, 30, 7, "a", phase="forward"),
    Span("MmBackward0", "op", 50, 80, 8, "a", phase="backward"),
    Span("aten::zero_", "op", 82, 84, 7, "<outside>", phase="forward"),
    Span("aten::add_", "op", 90, 99, 7, "<outside>", phase="optimizer"),
)


def test_every_track_has_a_name_and_the_first_one_shows_the_phases():
    events = drawn(*STEP, Span("gemm", "kernel", 15, 35, 3, "a"))

    tracks = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert set(names) == tracks
    assert sorted(names.values()) == ["main thread", "phases", "stream 3", "thread 8"]
    order = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert order == ["step", "host", "device"]


def test_phases_go_from_their_first_op_to_their_last():
    events = drawn(*STEP)

    phases = [(event["name"], event["ts"], event["dur"]) for event in events if event.get("cat") == "phase"]
    assert phases == [("forward", 0.01, 0.02), ("backward", 0.05, 0.03), ("optimizer", 0.09, 0.009)]


def test_phases_of_a_device_are_those_of_its_kernels():
    kernels = (
        Span("gemm", "kernel", 100, 200, 3, "a", phase="forward"),
        Span("gemm", "kernel", 200, 500, 3, "a", phase="backward"),
    )

    events = drawn(*STEP, *kernels)

    phases = [(event["name"], event["ts"], event["dur"]) for event in events if event.get("cat") == "phase"]
    assert phases == [("forward", 0.1, 0.1), ("backward", 0.2, 0.3)]


def test_an_op_that_outlasts_its_module_by_another_clock_is_cut_to_it():
    events = drawn(
        Span("a", "module", 0, 40, 7, "a"), Span("aten::mm", "op", 10, 41, 7, "a"), Span("b", "op", 41, 50, 7)
    )

    ends = {event["name"]: round(event["ts"] + event["dur"], 3) for event in events if event["ph"] == "X"}
    assert ends == {"a": 0.04, "aten::mm": 0.04, "b": 0.05}


def test_a_timeline_without_phases_has_no_track_of_them():
    assert all(event["pid"] != 1 for event in drawn(Span("Net", "module", 0, 40, 7, "")))


def test_a_profile_without_a_timeline_says_how_to_take_one():
    with pytest.raises(InputError, match="timeline=True"):
        Profile(Node("", "", "Net")).render("trace")
