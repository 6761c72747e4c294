"""The data of the report page: columns that add up, modules that know their parent, runs of identical blocks."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from profiles import lenet, module, oddities, rooted, stack
from random_trees import trees

from flopsight.analysis.report.page_data import memory_curve, report
from flopsight.analysis.report.page_head import verdict
from flopsight.results.caveats import Assumed, BusyMachine, Note
from flopsight.results.costs import Cost, OpRow
from flopsight.results.memory_curve import MemoryCurve
from flopsight.results.profile import Profile
from flopsight.results.records import Span


def column(page, name):
    return next(metric for metric in page["modules"]["metrics"] if metric["id"] == name)


@given(trees)
@settings(max_examples=40)
def test_what_modules_did_themselves_adds_up_to_the_whole(root):
    page = report(Profile(rooted(root)))

    for metric in page["modules"]["metrics"]:
        if "own" in metric and metric["id"] in {"flops", "backward_flops", "macs", "bytes", "activation_bytes"}:
            assert sum(metric["own"]) == metric["total"][0], metric["id"]


@given(trees)
@settings(max_examples=40)
def test_every_module_follows_its_parent_and_bears_its_path(root):
    modules = report(Profile(rooted(root)))["modules"]

    assert modules["parent"][0] == -1
    for place, parent in list(enumerate(modules["parent"]))[1:]:
        assert 0 <= parent < place
        above = modules["path"][parent]
        assert modules["path"][place] == (f"{above}." if above else "") + modules["name"][place]


def test_identical_blocks_of_a_stack_are_one_run_of_siblings():
    modules = report(stack())["modules"]
    runs = [[modules["path"][place] for place in run] for run in modules["alike"]]

    assert max(map(len, runs)) > 1
    for run in modules["alike"]:
        assert len({modules["parent"][place] for place in run}) == 1
        assert len({modules["kind"][place] for place in run}) == 1


def test_without_folding_there_are_no_runs():
    assert report(stack(), folded=False)["modules"]["alike"] == []


@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_the_data_is_plain_json_without_nan(make):
    page = report(make())

    assert json.loads(json.dumps(page, allow_nan=False)) == json.loads(json.dumps(page))


def test_a_metric_that_no_module_has_is_left_out():
    page = report(Profile(rooted(module("", "Net", flops=4))))

    ids = {metric["id"] for metric in page["modules"]["metrics"]}
    assert "flops" in ids
    assert "backward_latency" not in ids


def test_operators_carry_their_intensity():
    root = rooted(
        replace(module("", "Net", flops=12), ops=(OpRow("aten.add", "forward", 2, Cost(flops=12, bytes=48)),))
    )

    (row,) = report(Profile(root))["operators"]["rows"]
    assert row[0] == "aten.add"
    assert row[6] == 12 / 48


def test_memory_names_the_modules_that_hold_most_first():
    few = replace(module("few", "A"), own_activation_bytes=8)
    many = replace(module("many", "B"), own_activation_bytes=24, own_peak_bytes=16)
    page = report(
        Profile(rooted(module("", "Net", few, many)), peak_bytes=64, at_peak={"inputs": 16, "activations": 48})
    )

    memory = page["memory"]
    assert memory["kinds"] == [("activations", 48), ("inputs", 16)]
    assert [row[0] for row in memory["grid"]["rows"]] == ["many", "few"]
    assert memory["grid"]["modules"] == ["many", "few"]


def test_memory_of_a_stack_is_one_row_with_its_sum():
    def block(number):
        return module(str(number), "Block", replace(module("mlp", "MLP"), own_activation_bytes=8))

    page = report(Profile(rooted(module("", "Net", module("h", "ModuleList", *map(block, range(3)))))))

    assert page["memory"]["grid"]["rows"] == [["h.0-2.mlp x 3", "MLP", 3 * 8, 0]]
    assert page["memory"]["grid"]["modules"] == ["h.0-2.mlp"]


def test_a_timeline_keeps_kinds_lanes_phases_and_modules():
    spans = (Span("Net", "module", 0, 10, 7), Span("gemm", "kernel", 2, 5, 7, "", phase="backward"))

    page = report(Profile(rooted(module("", "Net")), timeline=spans))["timeline"]
    words = page["words"]
    assert [(words[s[0]], words[s[1]], s[2], s[3], s[4], words[s[5]], words[s[6]]) for s in page["spans"]] == [
        ("Net", "module", 0, 10, 7, "", ""),
        ("gemm", "kernel", 2, 5, 7, "backward", ""),
    ]


def test_a_caveat_says_which_numbers_it_is_about():
    doubts = (BusyMachine(0.4, 3), Assumed("a router's choice"), Note("anything"))
    page = report(replace(lenet(), caveats=doubts))

    assert [one["touches"] for one in page["caveats"]] == ["time", "counts", ""]


def test_the_verdict_names_the_part_with_most_work():
    block = lambda i: module(str(i), "Block", module("attn", "Attention", flops=30), module("mlp", "MLP", flops=10))
    root = rooted(
        module("", "Net", module("layers", "ModuleList", block(0), block(1)), module("head", "Linear", flops=20))
    )

    # 2 * 30 of 2 * 40 + 20 = 100; a list of blocks does nothing itself
    assert verdict(Profile(root)) == "60% of the FLOPs in attn x 2"


def test_the_verdict_of_a_step_without_times_is_about_the_flops_that_the_page_shows_first():
    big, small = (
        module("big", "Big", flops=6, backward=Cost(flops=10)),
        module("small", "S", flops=4, backward=Cost(flops=10)),
    )

    # forward 6 of 10; both phases would be 16 of 30
    assert verdict(Profile(rooted(module("", "Net", big, small)), trained=True)) == "60% of the forward FLOPs in big"


def test_what_holds_the_blocks_is_not_the_part_with_most_work():
    block = lambda i: module(str(i), "Block", module("attn", "Attention", flops=30), module("mlp", "MLP", flops=10))
    holder = module(
        "model", "Model", module("layers", "ModuleList", block(0), block(1)), module("norm", "Norm", flops=1)
    )
    root = rooted(module("", "Net", holder, module("head", "Linear", flops=19)))

    # 60 of 100; the model has 81, of which 80 are in the blocks
    assert verdict(Profile(root)) == "60% of the FLOPs in attn x 2"


def test_a_model_in_which_nothing_stands_out_has_no_verdict():
    assert verdict(Profile(rooted(module("", "Net", module("only", "Linear", flops=4))))) == ""


CURVE = MemoryCurve(
    at=(0, 2, 5),
    kinds={"temporaries": (0, 7, 1), "parameters": (9, 9, 9)},
    modules=("", "feature_extractor.0.hidden", "<outside>"),
    phases=("", "forward", "optimizer"),
)


def test_memory_over_the_step_has_what_lasts_at_its_bottom_and_its_peak():
    data = memory_curve(CURVE, list(lenet().walk()))

    assert data["kinds"] == ["parameters", "temporaries"]
    assert data["bytes"] == [(9, 9, 9), (0, 7, 1)]
    assert data["peak"] == 1


def test_a_point_leads_to_the_nearest_module_that_is_shown_and_an_op_outside_to_none():
    nodes = list(lenet().walk())

    before, inside, outside = memory_curve(CURVE, nodes)["modules"]

    assert (before, outside) == (-1, -1)
    assert nodes[inside].path == "feature_extractor.0"


def test_only_a_training_step_has_figures_of_its_backward():
    # both have parameters that would get gradients; only the second ran a backward
    forward, trained = (
        {metric["id"] for metric in report(profile)["modules"]["metrics"]} for profile in (lenet(), stack())
    )
    assert "grad_bytes" not in forward
    assert "grad_bytes" in trained
