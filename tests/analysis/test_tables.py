"""The rows of a view are data: what they hold, and that they add up."""

from dataclasses import replace

import pytest
from hypothesis import given
from profiles import lenet, linear, module, oddities, rooted, stack
from random_trees import trees

from flopsight.analysis.folding import fold
from flopsight.analysis.tables import depth_table, mark, op_totals, own_rows, records, tree_rows
from flopsight.errors import InputError
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Profile
from flopsight.results.records import OUTSIDE


@given(root=trees)
def test_own_rows_add_up_to_the_whole(root):
    rows = own_rows(root)

    assert sum(row["macs"] for row in rows) == root.macs
    assert sum(row["flops"] for row in rows) == root.flops
    assert sum(row["backward_pass_flops"] for row in rows) == root.backward.flops + root.recompute.flops
    assert sum(row["activation_bytes"] for row in rows) == root.activation_bytes


@given(root=trees)
def test_a_tree_has_one_row_a_node_and_the_root_first(root):
    rows = tree_rows(root)

    assert [row.path for row in rows] == [node.path for node in root.walk()]
    assert rows[0]["flops"] == root.flops
    assert rows[0].depth == 0


def test_shares_are_of_the_whole_forward():
    rows = {row.path: row for row in tree_rows(lenet().root)}
    conv = 2 * 1024 * 10 * 10 * 16 * 6 * 25 + 1024 * 10 * 10 * 16

    assert rows["feature_extractor.3"]["flops"] == conv
    assert rows["feature_extractor.3"].shares["flops"] == conv / 872_826_880
    assert rows["feature_extractor"].shares["latency"] == pytest.approx(20.12 / 25.7)


def test_a_model_that_does_nothing_has_shares_of_zero():
    (row,) = tree_rows(rooted(module("", "Empty")))

    assert (row.shares["flops"], row.shares["latency"]) == (0.0, None)


def test_own_rows_come_heaviest_first_and_in_any_order_asked_for():
    root = lenet().root

    assert [row.path for row in own_rows(root)[:2]] == ["feature_extractor.3", "feature_extractor.0"]
    assert own_rows(root, "params")[0].path == "feature_extractor.6"
    assert own_rows(root, "latency")[0].path == "feature_extractor.0"
    assert own_rows(root, "model")[0].path == "feature_extractor.0"


def test_an_unknown_order_names_the_nearest():
    with pytest.raises(InputError, match=r"no order 'param'. Did you mean 'params'\? Orders: model, flops, "):
        own_rows(lenet().root, "param")


def test_time_in_a_module_itself_is_what_its_children_did_not_take():
    def own(*children, **times):
        return own_rows(module("", "Net", *children, flops=1, **times), "model")[0]["latency"]

    parts = module("a", "A", latency=0.2), module("b", "B", latency=0.3)

    assert own(*parts, latency=0.6) == pytest.approx(0.1)
    assert own(module("a", "A", latency=0.7), latency=0.6) == 0.0
    assert own(module("a", "A", latency=0.7)) is None


def test_only_modules_that_never_ran_are_marked_not_called():
    profile = oddities()

    marks = {node.path: mark(node) for node in profile.walk() if mark(node)}

    assert marks == {"spare": "not called", "skipped": "ignored"}


def test_a_container_of_called_modules_and_one_called_by_hand_are_not_marked():
    assert mark(stack(2, width=8)["encoder.layer"]) == ""
    assert mark(linear("by_hand", 4, 8, 8, calls=0)) == ""
    assert mark(module("list", "ModuleList", module("a", "A", calls=0), calls=0)) == "not called"


def test_each_depth_sums_the_modules_of_a_class():
    first, second, third = depth_table(lenet().root)

    assert list(first) == ["LeNet5"]
    assert second["Sequential"].params == 61_706
    assert third["Conv2d"].params == 156 + 2416 + 48_120
    assert third["Linear"].cost.macs == 1024 * (120 * 84 + 84 * 10)
    assert third["Tanh"].latency == pytest.approx((2.85 + 0.6721 + 0.08202 + 0.09012) * 1e-3)


def test_the_depth_table_stops_where_told_and_leaves_out_what_is_no_module():
    profile = stack(2, width=8)

    assert len(depth_table(profile.root)) == 7
    assert len(depth_table(profile.root, 2)) == 3
    assert "" not in depth_table(profile.root)[1]


def test_tied_weights_count_once_among_modules_of_a_class():
    _, level = depth_table(oddities().root)

    # shared, frozen, spare and skipped hold 72 each, head the embedding's 400
    assert level["Linear"].params == 4 * 72 + 400
    assert level["Embedding"].params == 400


def test_activation_is_the_growth_of_memory_where_the_device_told_it():
    root = rooted(module("", "Net", module("a", "A", saved=10, allocated_bytes=70), module("b", "B", saved=5)))

    _, level = depth_table(root)

    assert (level["A"].activation_bytes, level["B"].activation_bytes) == (70, 5)


def test_ops_are_summed_over_modules_and_kept_apart_by_phase():
    def rows(*calls):
        return tuple(OpRow("aten.mm", phase, n, Cost(macs)) for phase, n, macs in calls)

    root = rooted(
        module("", "Net", module("a", "A", ops=rows(("forward", 1, 10), ("backward", 2, 20))), module("b", "B", ops=rows(("forward", 3, 5))))
    )  # fmt: skip

    assert [(op.phase, op.calls, op.cost.macs) for op in op_totals(root)] == [("backward", 2, 20), ("forward", 4, 15)]


def test_ops_are_ranked_by_their_time_if_they_have_one_and_by_work_below_that():
    rows = tuple(
        OpRow(op, "forward", 1, Cost(flops=flops), seconds=seconds)
        for op, flops, seconds in (("mm", 900, 1e-3), ("copy", 0, 5e-3), ("add", 10, None), ("mul", 20, None))
    )

    assert [total.op for total in op_totals(rooted(module("", "Net", ops=rows)))] == ["copy", "mm", "mul", "add"]


def test_a_folded_row_says_what_it_stands_for_once():
    rows = {row.path: row for row in tree_rows(fold(stack(12, width=8).root))}

    assert (rows["encoder.layer.0-11"].times, rows["encoder.layer.0-11"].first) == (12, True)
    assert (rows["encoder.layer.0-11.mlp"].times, rows["encoder.layer.0-11.mlp"].first) == (12, False)


def test_records_hold_raw_figures_of_every_node():
    found = {row["path"]: row for row in records(Profile(stack(1, width=8).root))}

    assert found["head"]["macs"] == 4 * 8 * 2
    assert found["head"]["backward_macs"] == 2 * 4 * 8 * 2
    assert found["head"]["output_shapes"] == "[[4, 2]]"
    assert found[""]["own_flops"] == 0
    assert found[OUTSIDE]["flops"] == 40


def test_backward_has_its_own_times_which_add_up_like_those_of_forward():
    inner = replace(module("a", "Linear", macs=1), latency=2.0, backward_latency=5.0)
    root = replace(rooted(module("", "Net", inner, macs=1)), latency=3.0, backward_latency=9.0)

    assert [row["backward_latency"] for row in tree_rows(root)] == [9.0, 5.0]
    assert {row.path: row["backward_latency"] for row in own_rows(root)} == {"": 9.0 - 5.0, "a": 5.0}
    assert {row.path: row["latency"] for row in own_rows(root)} == {"": 3.0 - 2.0, "a": 2.0}
