"""The data of the report page on limits: hand-made ceilings of 1,000 FLOP/s and 100 bytes a second."""

from dataclasses import replace

import pytest
from profiles import module, rooted

from flopsight.analysis.report import page_limits
from flopsight.analysis.report.page_step import step_of
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing

CEILINGS = Ceilings("toy", {"float32": 1000.0}, bandwidth=100.0)


def product(path, macs, moved, latency=None):
    cost = Cost(macs=macs, bytes=moved)
    node = module(path, "Linear")
    row = OpRow("aten.mm", "forward", 1, cost, dtype="float32")
    return replace(node, own=Phases(forward=cost), ops=(row,), latency=latency)


def limits(profile, device=None):
    return page_limits.limits(profile, step_of(profile), device)


def limit_sentence(profile, found, device=None):
    return page_limits.limit_sentence(profile, step_of(profile), found, device)


@pytest.fixture
def profile():
    # 5,000 MACs are 10,000 FLOPs: 10 s at the peak; 200 bytes take 2 s. The other: 0.2 s of work, 4 s of bytes.
    root = rooted(module("", "Net", product("heavy", 5000, 200, 12.5), product("moving", 100, 400, 5.0)))
    timing = Timing(forward=Stat((17.5,)))
    return Profile(root, ceilings=CEILINGS, timing=timing, environment=Environment(dtype="float32"))


def test_limits_add_up_over_the_tree(profile):
    found = limits(profile)

    assert [roof.limit for roof in found["roofs"]] == [10.0 + 4.0, 10.0, 4.0]


def test_every_module_says_what_binds_it(profile):
    found = limits(profile)

    assert found["bound"][1] == "compute"
    assert found["bound"][2] in {"memory", "depends on fusion"}


def test_a_point_stands_at_its_intensity_and_rate(profile):
    points = limits(profile)["roofline"]["points"]

    heavy = next(point for point in points if point["module"] == 1)
    assert heavy["low"] == 10_000 / 200
    assert heavy["rate"] == 10_000 / 12.5


def test_the_verdict_ends_with_the_share_of_the_limit(profile):
    # 14 s of 17.5 s
    assert limit_sentence(profile, limits(profile)).endswith("the forward at 80% of its limit")


def test_a_time_below_the_limit_is_no_share_above_one(profile):
    faster = replace(profile, timing=Timing(forward=Stat((7.0,))))  # half of 14 s

    assert limit_sentence(faster, limits(faster)).endswith("faster than its limit")


def test_every_kind_of_unit_that_ran_has_its_roof(profile):
    """Convolutions as TF32 at 4,000 FLOP/s, products in float32 at 1,000; nothing runs in bfloat16."""
    mixed = replace(CEILINGS, flops={"float32": 1000.0, "float32/cudnn": 4000.0, "bfloat16": 8000.0})
    conv = replace(product("conv", 5000, 200), kind="Conv2d")
    conv = replace(conv, ops=(replace(conv.ops[0], op="aten.convolution"),))
    one, both = (
        replace(profile, ceilings=mixed, root=rooted(module("", "Net", conv, *others)))
        for others in ((), (product("dense", 5000, 200),))
    )

    def drawn(p):
        return limits(p)["roofline"]

    assert drawn(one)["peaks"] == [{"name": "float32 as TF32", "flops": 4000.0}]
    assert drawn(both)["peaks"] == [{"name": "float32 as TF32", "flops": 4000.0}, {"name": "float32", "flops": 1000.0}]
    assert [point["peak"] for point in drawn(both)["points"]] == [4000.0, 1000.0]


def test_without_ceilings_there_is_no_roofline(profile):
    unknown = replace(profile, ceilings=None)

    found = limits(unknown)
    assert "roofline" not in found
    assert limit_sentence(unknown, found) == ""


def test_on_another_device_there_is_its_least_time_and_no_rate_of_ours(profile):
    found = limits(profile, "h100-sxm")

    said = limit_sentence(profile, found, "h100-sxm")
    assert said.startswith(("memory-bound, at least ", "compute-bound, at least ", "compute- or memory-bound"))
    assert said.endswith(" a forward on H100 SXM5 80GB")
    assert {point["rate"] for point in found["roofline"]["points"]} == {None}
