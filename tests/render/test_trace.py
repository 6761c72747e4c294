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


def test_a_module_with_several_spans_names_its_costs_as_those_of_all_of_them():
    work = Phases(Cost(3 * 5))  # 3 calls of 5 MACs, each 2 FLOPs; they need not be alike
    root = Node("", "", "Net", children=(Node("a", "a", "Linear", work, calls=3, input_shapes=((2, 3),)),))
    each = (Span("a", "module", begin, begin + 9, 7, "a") for begin in (0, 10, 20))
    whole = Span("Net", "module", 0, 90, 7, "")

    events = json.loads(Profile(root, timeline=(whole, *each)).render("trace"))["traceEvents"]

    spans = [event["args"] for event in events if event["ph"] == "X"]
    assert (spans[0]["macs"], spans[0]["flops"]) == (15, 30)
    assert spans[1] == spans[2] == spans[3]
    assert not {"macs", "flops", "bytes", "inputs", "outputs"} & set(spans[1])
    assert (spans[1]["forward_calls"], spans[1]["macs_of_all_forward_calls"]) == (3, 15)
    assert (spans[1]["flops_of_all_forward_calls"], spans[1]["inputs_of_the_first_call"]) == (30, [[2, 3]])


def test_work_done_again_in_backward_is_not_shown_as_a_second_forward():
    root = Node("", "", "Net", children=(Node("a", "a", "Linear", own=Phases(Cost(5), recompute=Cost(3)), calls=1),))
    spans = (Span("a", "module", 0, 9, 7, "a"), Span("a", "module", 20, 25, 7, "a"))

    events = json.loads(Profile(root, timeline=spans).render("trace"))["traceEvents"]

    found = [event["args"] for event in events if event["ph"] == "X"]
    assert [(args["forward_calls"], args["macs_of_all_forward_calls"]) for args in found] == [(1, 5), (1, 5)]
    assert not any("macs" in args for args in found)


def test_kernels_have_a_track_of_their_own():
    events = drawn(Span("a", "module", 0, 10, 7, "a"), Span("gemm", "kernel", 20, 30, 7, "a"))

    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    kernel = next(event for event in events if event.get("cat") == "kernel")
    assert names[kernel["pid"]] == "device"


def test_a_profile_without_a_timeline_says_how_to_take_one():
    with pytest.raises(InputError, match="timeline=True"):
        Profile(Node("", "", "Net")).render("trace")
