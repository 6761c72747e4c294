"""The five lines ahead of the tree."""

from dataclasses import replace

import pytest
from profiles import lenet, stack

from flopsight.analysis.headline import headline
from flopsight.ceilings import MEASURED, Ceilings


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
