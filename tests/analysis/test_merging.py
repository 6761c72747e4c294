"""Every field of a node has one rule, and every pass follows it."""

from dataclasses import fields

import pytest
from profiles import linear, module, rooted

from flopsight.analysis.folding import fold
from flopsight.analysis.merging import PLACE, RULES, merged
from flopsight.analysis.passes import to_depth, to_rows
from flopsight.analysis.phase_filter import only
from flopsight.analysis.tables import tree_rows
from flopsight.results.node import Node
from flopsight.results.profile import Profile

BLOCKS = 4
TIMES = {"latency": 1.0, "stream_latency": 3.0, "host_latency": 0.5, "backward_latency": 2.0}


def blocks(names="{}"):
    """Four like blocks on a device: 1 s of kernels within 3 s of the stream, 0.5 s of the host, 2 s of backward."""
    made = (linear(names.format(i), 4, 8, 8, allocated_bytes=100, **TIMES) for i in range(BLOCKS))
    return rooted(module("", "Net", *made, latency=4.0, stream_latency=12.0))


def test_every_field_of_a_node_has_one_rule_or_is_its_place():
    assert {field.name for field in fields(Node)} == {*RULES, *PLACE}


def folded():
    return fold(blocks()).children[0]


def left_over():
    """The row for siblings that are not drawn: all but one of the blocks, then the one again."""
    first, rest = to_rows(3)(blocks("part_{}_x")).children
    return merged([first, rest], path="all", name="all", kind="")


@pytest.mark.parametrize("row", [folded, left_over])
def test_four_blocks_as_one_row_take_four_times_as_long_by_every_clock(row):
    one = row()

    assert {name: getattr(one, name) for name in TIMES} == {name: BLOCKS * time for name, time in TIMES.items()}
    assert one.idle == BLOCKS * (3.0 - 1.0)
    assert one.allocated_bytes == BLOCKS * 100
    assert one.input_bytes == BLOCKS * 4 * 4 * 8
    assert one.output_bytes == BLOCKS * 4 * 4 * 8
    assert one.flops_per_second == one.flops / 4.0


def test_a_closed_row_keeps_the_times_of_its_subtree():
    cut = to_depth(0)(blocks())

    assert (cut.latency, cut.stream_latency, cut.idle) == (4.0, 12.0, 8.0)
    assert cut.params == BLOCKS * (8 * 8 + 8)


def test_without_the_forward_no_time_of_the_forward_is_left():
    profile = only(Profile(blocks(), trained=True), ["backward"])

    assert {name for name in TIMES if getattr(profile["0"], name) is not None} == {"backward_latency"}


def test_a_value_that_not_all_share_is_left_empty():
    row = merged([linear("a", 4, 8, 8), linear("b", 4, 8, 9)], path="", name="", kind="Linear")

    assert row.input_shapes == ((4, 8),)
    assert row.output_shapes == ()
    assert row.extra_repr == ""


def test_a_model_of_any_depth_is_walked_summed_compared_and_drawn():
    depth = 3000
    node = linear("x", 4, 8, 8)
    for _ in range(depth):
        node = module("x", "Block", node)
    other = linear("x", 4, 8, 8)
    for _ in range(depth):
        other = module("x", "Block", other)

    assert sum(1 for _ in node.walk()) == depth + 1
    assert (node.macs, node.called, node.params) == (4 * 8 * 8, True, 8 * 8 + 8)
    assert node != other, "their tensors differ"
    assert node == node.children[0].__class__(**{f.name: getattr(node, f.name) for f in fields(node)})
    assert len(tree_rows(fold(node))) == depth + 1
    assert to_depth(1)(node).macs == node.macs
    assert to_rows(9)(node).macs == node.macs
