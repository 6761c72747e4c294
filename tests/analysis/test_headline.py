"""The five lines ahead of the tree."""

from dataclasses import replace

import pytest
import torch
from profiles import lenet, module, rooted, stack

import flopsight
from flopsight import units
from flopsight.analysis.headline import headline
from flopsight.analysis.report.page_head import tiles
from flopsight.analysis.summary_facts import facts
from flopsight.render.summary import caveats
from flopsight.results.ceilings import MEASURED, Ceilings
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing


def test_five_lines_say_cost_time_limit_bound_and_the_first_finding():
    p = stack()
    # 12 blocks of 12 x 768^2 products on 512 tokens and a head, forward and twice in backward, at 989 TFLOP/s
    macs = 512 * 12 * 12 * 768**2 + 4 * 768 * 2
    assert p.limit() == pytest.approx(3 * 2 * macs / 989e12)

    assert headline(p) == [
        "costs     87.0 GFLOP forward, 174 GFLOP backward, 85.0 M parameters, 2.50 GB at the peak",
        "takes     51.0 ms a step, 78.4 samples/s, MFU 0.5%",
        "limit     264 us, 0.5% of the time (datasheet of H200 SXM5 141GB)",
        "bound by  compute: 100% of the limit is in ops that compute binds, 0.0% in ops that memory binds",
        "first     nothing found to change",
    ]


def test_a_device_without_a_peak_says_what_to_do():
    assert headline(lenet())[2:4] == [
        "limit     not known: no peak of cpu is known; flopsight device --measure finds it, --on h100-sxm names another device",
        "bound by  not known",
    ]


def test_on_a_named_device_the_least_time_the_memory_and_the_highest_mfu():
    (_, takes, *_) = headline(stack(), "v100-sxm2")
    assert takes.startswith("takes     V100 SXM2 has no known peak in a dtype")  # bfloat16

    p = replace(stack(), peak_bytes=100 * 10**9)
    (_, takes, *_) = headline(p, "h100-sxm")
    assert (
        takes
        == "takes     at least 264 us a step on H100 SXM5 80GB, MFU at most 100%, 100 GB of 85.9 GB of memory: does not fit"
    )


def test_measured_ceilings_are_named_as_such():
    own = Ceilings("NVIDIA H200", {"bfloat16": 800e12}, 4.3e12, source=MEASURED)

    assert headline(replace(stack(), ceilings=own))[2].endswith("(measured ceilings of NVIDIA H200)")


def causal(seconds=None):
    """Attention of 10^12 MACs, half of them masked, beside a product of 10^11: 1.2 TFLOP to do, 2.2 TFLOP dense."""
    flash = OpRow("aten._scaled_dot_product_flash_attention", "forward", 1, Cost(10**12, skipped_macs=5 * 10**11))
    dense = OpRow("aten.mm", "forward", 1, Cost(10**11))
    root = rooted(module("", "Net", module("a", "Attention", ops=(flash,)), module("b", "Linear", ops=(dense,))))
    timing = Timing(forward=Stat((seconds,))) if seconds else Timing()
    device = Environment(device="cuda", device_name="NVIDIA H100 80GB HBM3", dtype="bfloat16")
    return Profile(root, environment=device, peak_flops={"bfloat16": 989.4e12}, timing=timing)


def test_the_highest_mfu_counts_causal_work_in_numerator_and_limit_alike():
    takes = headline(causal(), "h100-sxm")[1]

    # a kernel that leaves the masked half out could run both ops at the peak, and no step can be above it
    assert "MFU at most 100% (the masked half of attention left out)" in takes
    assert "left out" not in headline(stack(), "h100-sxm")[1]


def test_a_time_below_the_limit_is_no_share_above_one():
    limit = 2 * 6 * 10**11 / 989.4e12
    faster, slower = headline(causal(limit / 2))[2], headline(causal(limit * 2))[2]

    assert "100% of the time, which is shorter" in faster
    assert "50.0% of the time" in slower
    assert "shorter" not in slower


def test_an_mfu_above_one_names_the_masked_half_that_it_counts():
    # dense 2.2 TFLOP in the time that 1.65 TFLOP take at the peak: MFU 133 %, causal 73 %
    (said,) = caveats(causal(1.65e12 / 989.4e12))

    assert "MFU is above 100%: it counts causal attention dense" in said
    assert "72.7%" in said
    assert "nameplate" in caveats(causal(0.9e12 / 989.4e12))[0]


def test_a_peak_with_gradients_recorded_says_so():
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    x = torch.randn(100, 64)
    recorded = flopsight.count(layers, (x,), on="meta")
    with torch.no_grad():
        plain = flopsight.count(layers, (x,), on="meta")

    assert recorded.peak_bytes > plain.peak_bytes
    assert "at the peak, gradients recorded" in headline(recorded)[0]
    assert "recorded" not in headline(plain)[0]
    notes = [{fact.label: fact.note for group in facts(p) for fact in group} for p in (recorded, plain)]
    assert ["gradients were recorded" in each["Peak memory"] for each in notes] == [True, False]
    assert "recorded" not in headline(flopsight.count(layers, (x,), train=True, on="meta"))[0]


def test_a_run_of_several_forwards_says_what_its_figures_are_of():
    layer, x = torch.nn.Linear(64, 64, bias=False), torch.randn(1, 64)
    with flopsight.recording(layer) as r:
        for _ in range(8):
            layer(x)

    lines = dict(line.split(maxsplit=1) for line in headline(r.profile, "h100-sxm")[:2])

    bytes_moved = 8 * 4 * (64 * 64 + 2 * 64)
    least = bytes_moved / 3.35e12
    assert lines["costs"].startswith("65.5 kFLOP in 8 forwards, ")
    assert lines["takes"].startswith(
        f"at least {units.seconds(least)} for 8 forwards ({units.seconds(least / 8)} each) on "
    )
    assert "least time of a run of 8 forwards on " in str(tiles(r.profile, "h100-sxm"))
