"""The older profilers' Flops Profiler text: what is printed when, and what never breaks."""

import re
from dataclasses import replace

from profiles import lenet, linear, module, oddities, rooted, stack

from flopsight.render import render
from flopsight.results.costs import Cost
from flopsight.results.profile import Profile
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import Whole, World


def text_of(profile, **options):
    return render(profile, "deepspeed", **options)


def labels(text):
    summary = text.split("iter latency (sum of fwd, bwd and step latency)\n\n")[1].split("\n\n")[0]
    return [line.split(": ")[0] for line in summary.splitlines()]


def test_a_forward_alone_has_the_forward_lines_and_no_others():
    assert labels(text_of(replace(lenet(), batch_size=None))) == [
        "params per gpu",
        "params of model = params per GPU * mp_size",
        "fwd MACs per GPU",
        "fwd flops per GPU",
        "fwd flops of model = fwd flops per GPU * mp_size",
        "fwd latency",
        "fwd FLOPS per GPU = fwd flops per GPU / fwd latency",
    ]


def test_a_training_step_has_all_lines_in_the_older_profilers_order_and_the_counted_one_beneath_the_estimate():
    assert labels(text_of(stack(2, width=8))) == [
        "world size",
        "data parallel size",
        "model parallel size",
        "batch size per GPU",
        "params per gpu",
        "params of model = params per GPU * mp_size",
        "fwd MACs per GPU",
        "fwd flops per GPU",
        "fwd flops of model = fwd flops per GPU * mp_size",
        "fwd latency",
        "bwd latency",
        "fwd FLOPS per GPU = fwd flops per GPU / fwd latency",
        "bwd FLOPS per GPU = 2 * fwd flops per GPU / bwd latency",
        "bwd FLOPS per GPU = counted bwd flops per GPU / bwd latency",
        "fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency)",
        "step latency",
        "iter latency",
        "samples/second",
    ]


def test_the_iteration_is_the_sum_of_its_parts_where_it_was_not_measured_whole():
    profile = stack(2, width=8)
    parts = replace(profile, timing=replace(profile.timing, step=None))

    assert re.search(r"iter latency: +51.0 ms", text_of(parts))  # 15 + 31 + 5
    assert re.search(r"samples/second: +78.43", text_of(parts))


def test_a_world_multiplies_what_model_parallel_ranks_share():
    world = World(size=8, rank=0, data_parallel=2, model_parallel=4)
    text = text_of(replace(lenet(), world=world))

    assert re.search(r"world size: +8 ", text)
    assert re.search(r"params of model = params per GPU \* mp_size: +246.82 k", text)  # 4 * 61,706
    assert re.search(r"fwd flops of model = fwd flops per GPU \* mp_size: +3.49 G", text)  # 4 * 872,826,880


def test_a_sharded_model_has_no_equation_that_would_be_false():
    root = rooted(module("", "Net", linear("fc", 4, 8, 8)))
    profile = Profile(root, world=World(size=4, data_parallel=4, sharded=True), unsharded=Whole(288, 256, 544))

    text = text_of(profile)

    assert re.search(r"params of model: +288 ", text)
    assert "params per GPU * mp_size" not in text


def test_the_step_that_is_printed_is_the_one_asked_for_then_the_profiles_then_one():
    assert "Profile Summary at step 7:" in text_of(replace(lenet(), step=3), profile_step=7)
    assert "Profile Summary at step 3:" in text_of(replace(lenet(), step=3))
    assert "Profile Summary at step 0:" in text_of(replace(lenet(), step=0))
    assert "Profile Summary at step 1:" in text_of(lenet())


def test_top_modules_are_the_largest_first():
    text = text_of(lenet(), top_modules=3)

    assert "Top 3 modules in terms of params, MACs or fwd latency at different model depths:" in text
    assert "params      - {'Conv2d': '50.69 k', 'Linear': '11.01 k', 'Tanh': '0'}" in text
    assert "fwd latency - {'Conv2d': '11.37 ms', 'Linear': '5.27 ms', 'AvgPool2d': '5.02 ms'}" in text


def test_depth_cuts_the_aggregate_and_the_tree():
    text = text_of(lenet(), module_depth=1)

    assert "depth 1:" in text
    assert "depth 2:" not in text
    assert "(feature_extractor): Sequential(50.69 k, 82.15% Params" in text
    assert "Conv2d(" not in text


def test_without_detail_there_is_no_tree():
    text = text_of(lenet(), detailed=False)

    assert "Detailed Profile" not in text
    assert "LeNet5(" not in text
    assert text.endswith("\n\n" + "-" * 78 + "\n")


def test_without_times_rows_keep_their_form_and_a_note_says_why():
    text = text_of(oddities())

    assert "4. Latency was not measured: the latencies and FLOPS below are 0." in text
    assert (
        "(head): Linear(400, 58.14% Params, 3.2 KMACs, 60.98% MACs, 0 us, 0.00% latency, 0.0 FLOPS, in_features=8"
        in text
    )
    assert "fwd latency:" not in text


def test_what_runs_outside_modules_is_no_module():
    text = text_of(stack(2, width=8))

    assert "<outside>" not in text
    assert "loss" not in text.lower().split("classifier(")[1]


def test_marks_stand_before_a_modules_own_text():
    text = text_of(oddities())

    assert "0.0 FLOPS, ignored, in_features=8, out_features=8, bias=True)" in text
    assert "0.0 FLOPS, not called, in_features=8, out_features=8, bias=True)" in text


def test_unknown_ops_are_named_before_the_last_rule_and_only_then():
    lines = text_of(oddities()).splitlines()

    assert lines[-3] == "Not counted: mylib.spin (2 calls). Say what they cost with @flopsight.formula."
    assert lines[-2].startswith("Caveat: Per-module times come from a pass 1.30x")
    assert lines[-1] == "-" * 78
    assert text_of(lenet()).splitlines()[-2] == ")"


def test_a_modules_text_of_several_lines_keeps_the_shape_of_torchs_repr():
    root = rooted(module("", "Net", module("a", "Odd", extra="one\ntwo"), params=(3,)))

    text = text_of(Profile(root))

    figures = "0, 0.00% Params, 0 MACs, 0.00% MACs, 0 us, 0.00% latency, 0.0 FLOPS, "
    assert f"  (a): Odd(\n    {figures}one\n    two\n  )\n)" in text


def test_rates_are_flops_over_the_time_of_their_phase():
    root = rooted(module("", "Net", macs=10**9, backward=Cost(2 * 10**9)))
    timing = Timing(forward=Stat((0.1,)), backward=Stat((0.2,)))

    text = text_of(Profile(root, timing=timing, trained=True))

    assert text.count(" 20.0 GFLOPS\n") == 4
