"""The timeline as Chrome and Perfetto read it."""

import json

import pytest

from flopsight.errors import InputError
from flopsight.records import Span
from flopsight.tree import Cost, Node, Phases, Profile


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


def test_kernels_have_a_track_of_their_own():
    events = drawn(Span("a", "module", 0, 10, 7, "a"), Span("gemm", "kernel", 20, 30, 7, "a"))

    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    kernel = next(event for event in events if event.get("cat") == "kernel")
    assert names[kernel["pid"]] == "device"


def test_a_profile_without_a_timeline_says_how_to_take_one():
    with pytest.raises(InputError, match="timeline=True"):
        Profile(Node("", "", "Net")).render("trace")
