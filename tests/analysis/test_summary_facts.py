"""The summary: what it says, and that sizes are those torchinfo printed for the older print's ResNet-18."""

from dataclasses import replace

import pytest
from older_times import older_print, tids_rows
from profiles import lenet, module, oddities, rooted, stack

from flopsight.analysis.summary_facts import facts, pass_bytes
from flopsight.results.comm import CommRow
from flopsight.results.costs import Cost
from flopsight.results.profile import Profile
from flopsight.results.records import OUTSIDE
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import Whole


def said(profile):
    return {fact.label: fact.value for group in facts(profile) for fact in group}


def notes(profile):
    return {fact.label: fact.note for group in facts(profile) for fact in group}


@pytest.fixture(scope="module")
def resnet():
    """ResNet-18 at batch 16 with the shapes and parameters of the older print's TIDS print."""
    rows = tids_rows(older_print("resnet_tids"))

    def built(place):
        level, name, kind, params, _, _, takes, gives = rows[place]
        below = next((i for i in range(place + 1, len(rows)) if rows[i][0] <= level), len(rows))
        children = [built(i) for i in range(place + 1, below) if rows[i][0] == level + 1]
        return module(
            name, kind, *children, params=() if children or not params else (params,), takes=takes, gives=gives
        )

    return Profile(rooted(built(0)))


def test_sizes_are_those_that_torchinfo_prints(resnet):
    found = said(resnet)

    assert round(found["Input size"] / 1e6, 2) == 9.63
    assert round(found["Params size"] / 1e6, 2) == 46.76
    assert round(found["Forward/backward pass size"] / 1e6, 2) == 635.96
    assert round(found["Estimated total size"] / 1e6, 2) == 692.35
    assert found["Total params"] == 11_689_512


def test_the_pass_size_counts_every_call_of_a_layer_with_parameters():
    layer = module("a", "Linear", params=(4,), gives=(2, 8), calls=3)
    free = module("b", "ReLU", gives=(2, 8))
    unused = module("c", "Linear", params=(4,), calls=0)

    assert pass_bytes(rooted(module("", "Net", layer, free, unused))) == 2 * 3 * 2 * 8 * 4


def test_a_model_of_one_layer_is_a_leaf_though_a_loss_ran_beside_it():
    root = rooted(module("", "Linear", module(OUTSIDE, "", flops=3), params=(4,), gives=(2, 8)))

    assert pass_bytes(root) == 2 * 2 * 8 * 4


def test_trainable_and_frozen_parameters_are_told_apart():
    found = said(oddities())

    assert (found["Total params"], found["Trainable params"], found["Non-trainable params"]) == (688, 616, 72)


def test_phases_that_did_not_run_have_no_line():
    assert not {"Backward FLOPs", "Recompute FLOPs", "Optimizer FLOPs", "Step latency", "Peak memory"} & set(
        said(lenet())
    )


def test_a_training_step_tells_its_phases_times_and_rates():
    found = said(stack(2, width=8))
    rows, width = 4 * 128, 8
    macs = 2 * rows * 12 * width * width + 4 * width * 2

    assert found["Forward MACs"] == macs
    assert found["Step latency"] == 0.051
    assert found["Throughput"] == pytest.approx(4 / 0.051)
    assert found["Token throughput"] == pytest.approx(512 / 0.051)
    assert found["Forward FLOP/s"] == pytest.approx(found["Forward FLOPs"] / 0.015)
    assert found["Model FLOP/s of the step"] == pytest.approx(3 * 2 * macs / 0.051)
    assert found["MFU"] == pytest.approx(3 * 2 * macs / 0.051 / 989e12)


def test_the_causal_figure_stands_beside_the_dense_one_only_where_they_differ():
    dense = module("", "Net")
    causal = replace(dense, own=replace(dense.own, forward=Cost(macs=100, skipped_macs=40)))

    found = said(Profile(causal))

    assert (found["Forward FLOPs"], found["Forward FLOPs, causal"]) == (200, 120)
    assert "dense" in notes(Profile(causal))["Forward FLOPs"]
    assert "Forward FLOPs, causal" not in said(lenet())


def test_totals_that_lack_unknown_ops_say_so():
    assert notes(oddities())["Forward FLOPs"] == "at least: some op calls are unknown"
    assert notes(lenet())["Forward FLOPs"] == ""


def test_latency_comes_with_its_spread():
    assert notes(lenet())["Forward latency"] == "median of 3, mean 25.9 ms, quartiles 7.0% apart"
    assert (26.9 - 25.1) / 25.7 == pytest.approx(0.070, abs=0.0005)


def test_on_a_device_the_summary_tells_how_long_it_computed_and_how_long_it_waited():
    timing = Timing(forward=Stat((0.005,)), busy=0.004, idle=0.002)  # kernels side by side: busy and idle overlap
    profile = Profile(rooted(module("", "Net", macs=500)), timing=timing)

    assert (said(profile)["Device busy in forward"], said(profile)["Device idle in forward"]) == (0.004, 0.002)
    assert notes(profile)["Device idle in forward"] == "40% of the latency"
    assert "Device busy in forward" not in said(lenet())


def test_a_module_has_a_rate_by_its_kernels_and_one_by_the_time_that_passed():
    layer = replace(module("a", "Linear", macs=500), latency=0.002, stream_latency=0.005)

    assert (layer.flops_per_second, layer.wall_flops_per_second) == (1000 / 0.002, 1000 / 0.005)
    assert layer.idle == pytest.approx(0.003)
    on_the_host = replace(layer, stream_latency=None)
    assert on_the_host.wall_flops_per_second == on_the_host.flops_per_second == 1000 / 0.002
    assert on_the_host.idle is None


def test_the_rate_of_the_forward_is_its_flops_over_its_latency():
    profile = Profile(rooted(module("", "Net", macs=500)), timing=Timing(forward=Stat((0.1,))))

    assert said(profile)["Forward FLOP/s"] == 1000 / 0.1


def test_the_whole_model_is_told_beside_a_ranks_share():
    profile = replace(lenet(), unsharded=Whole(params=123_412, macs=853_032_960, flops=1_745_653_760))

    found = said(profile)

    assert found["Params of the whole model"] == 123_412
    assert found["Forward FLOPs of the whole model"] == 1_745_653_760


def test_the_peak_says_what_was_alive_largest_first():
    profile = replace(
        lenet(), peak_bytes=3_000_000, at_peak={"activations": 1_000_000, "gradients": 0, "parameters": 2_000_000}
    )

    assert notes(profile)["Peak memory"] == "parameters 2.00 MB, activations 1.00 MB"


def test_utilization_stands_beside_its_convention_and_the_causal_figure_beside_the_dense_one():
    step = stack(2, width=8)
    found = notes(step)

    assert found["MFU"].startswith("of 989 TFLOP/s in bfloat16")
    assert "forward + backward, no recompute, no optimizer; attention dense, its backward 2.0x" in found["MFU"]
    assert found["HFU"] == "nothing was recomputed"
    assert found["Model FLOPs per token"] == "forward + backward"
    assert "MFU, causal" not in found
    own = replace(step.root.own, forward=step.root.own.forward + Cost(macs=1000, skipped_macs=400))
    causal = replace(step, root=replace(step.root, own=own))
    assert said(causal)["MFU"] - said(causal)["MFU, causal"] == pytest.approx(2 * 400 / 0.051 / 989e12)


def test_model_flops_of_a_token_are_those_of_the_step_over_its_tokens():
    found = said(stack(2, width=8))

    assert found["Model FLOPs per token"] == pytest.approx(found["Model FLOP/s of the step"] * 0.051 / 512)


def test_what_goes_to_other_ranks_stands_by_collective():
    row = CommRow("all_gather", "forward", 2, 4_096, 4_096, 2, "dp")
    again = replace(row, phase="backward", seconds=2e-3, exposed=1e-3)
    profile = replace(lenet(), root=replace(lenet().root, comm=(row, again)))

    (fact,) = [fact for group in facts(profile) for fact in group if fact.label == "Handed to all_gather"]

    assert fact.value == 2 * 4_096
    assert fact.note == "4 calls, 8.19 kB sent, 1.00 ms exposed of 2.00 ms"


def test_the_estimate_says_why_it_is_not_the_peak():
    def note(profile):
        return next(fact.note for group in facts(profile) for fact in group if fact.label == "Estimated total size")

    assert note(stack()) == "as torchinfo estimates: input, params, pass; the peak is all that was alive at once"
    assert note(replace(stack(), peak_bytes=None)) == "as torchinfo estimates: input, params, pass"


@pytest.mark.parametrize(
    ("in_nodes", "busy", "said_so"),
    [(1.5, None, "; 1.50 s in autograd nodes, the rest around them"), (1.99, None, ""), (1.5, 1.0, "")],
)
def test_a_backward_that_is_longer_than_its_row_names_both(in_nodes, busy, said_so):
    timing = Timing(forward=Stat((1.0,)), backward=Stat((2.0,)), busy=busy)
    root = replace(rooted(module("", "Net")), backward_latency=in_nodes)

    assert notes(Profile(root, timing=timing))["Backward latency"] == said_so
