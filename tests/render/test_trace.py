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

    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    kernel = next(event for event in events if event.get("cat") == "kernel")
    assert names[kernel["pid"]] == "device"


def test_a_profile_without_a_timeline_says_how_to_take_one():
    with pytest.raises(InputError, match="timeline=True"):
        Profile(Node("", "", "Net")).render("trace")
