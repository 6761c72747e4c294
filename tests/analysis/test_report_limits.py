"""The data of the report page on limits: hand-made ceilings of 1,000 FLOP/s and 100 bytes a second."""

from dataclasses import replace

import pytest
from profiles import module, rooted

from flopsight.analysis.report_limits import limit_sentence, limits
from flopsight.ceilings import Ceilings
from flopsight.costs import Cost, OpRow, Phases
from flopsight.timings import Stat, Timing
from flopsight.tree import Environment, Profile

CEILINGS = Ceilings("toy", {"float32": 1000.0}, bandwidth=100.0)


def product(path, macs, moved, latency=None):
    cost = Cost(macs=macs, bytes=moved)
    node = module(path, "Linear")
    row = OpRow("aten.mm", "forward", 1, cost, dtype="float32")
    return replace(node, own=Phases(forward=cost), ops=(row,), latency=latency)


@pytest.fixture
def profile():
    # 5,000 MACs are 10,000 FLOPs: 10 s at the peak; 200 bytes take 2 s. The other: 0.2 s of work, 4 s of bytes.
    root = rooted(module("", "Net", product("heavy", 5000, 200, 12.5), product("moving", 100, 400, 5.0)))
    timing = Timing(forward=Stat((17.5,)))
    return Profile(root, ceilings=CEILINGS, timing=timing, environment=Environment(dtype="float32"))


def test_limits_add_up_over_the_tree(profile):
    found = limits(profile, list(profile.walk()))

    assert [roof.limit for roof in found["roofs"]] == [10.0 + 4.0, 10.0, 4.0]


def test_every_module_says_what_binds_it(profile):
    found = limits(profile, list(profile.walk()))

    assert found["bound"][1] == "compute"
    assert found["bound"][2] in {"memory", "depends on fusion"}


def test_a_point_stands_at_its_intensity_and_rate(profile):
    points = limits(profile, list(profile.walk()))["roofline"]["points"]

    heavy = next(point for point in points if point["module"] == 1)
    assert heavy["low"] == 10_000 / 200
    assert heavy["rate"] == 10_000 / 12.5


def test_the_verdict_ends_with_the_share_of_the_limit(profile):
    # 14 s of 17.5 s
    assert limit_sentence(profile, limits(profile, list(profile.walk()))).endswith("at 80% of the limit")


def test_without_ceilings_there_is_no_roofline(profile):
    unknown = replace(profile, ceilings=None)

    found = limits(unknown, list(unknown.walk()))
    assert "roofline" not in found
    assert limit_sentence(unknown, found) == ""


def test_on_another_device_there_is_its_least_time_and_no_rate_of_ours(profile):
    found = limits(profile, list(profile.walk()), "h100-sxm")

    said = limit_sentence(profile, found, "h100-sxm")
    assert said.startswith(("memory-bound, at least ", "compute-bound, at least ", "compute- or memory-bound"))
    assert said.endswith(" a forward on H100 SXM5 80GB")
    assert {point["rate"] for point in found["roofline"]["points"]} == {None}
