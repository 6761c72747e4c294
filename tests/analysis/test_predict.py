"""A prediction by arithmetic: limits over shares."""

from dataclasses import replace

import pytest
from profiles import module, rooted

from flopsight.analysis.predict import predict
from flopsight.ceilings import MEASURED, Ceilings
from flopsight.costs import Cost, OpRow
from flopsight.tree import Coverage, Environment, Profile

DEVICE = Ceilings(
    "Round", {"bfloat16": 1e12}, 1e10, source=MEASURED, host_call=1e-5, shortest_kernel=1e-6,
    efficiency={"matmul": ((1e-2, 0.5),), "pointwise": ((1e-2, 0.8),)},
)  # fmt: skip


def profile(*rows, calls=10, device="cuda", ceilings=DEVICE):
    root = rooted(module("", "Model", ops=rows, macs=sum(row.cost.macs for row in rows)))
    seen = Coverage(counted={"aten.mm": calls})
    return Profile(root, coverage=seen, environment=Environment(device=device, dtype="bfloat16"), ceilings=ceilings)


PRODUCT = OpRow("aten.mm", "forward", 1, Cost(macs=5 * 10**9), dtype="bfloat16")
ADD = OpRow("aten.add", "forward", 1, Cost(bytes=4 * 10**7), dtype="bfloat16", kind="pointwise")
TINY = OpRow("aten.add", "forward", 1000, Cost(bytes=1000), dtype="bfloat16", kind="pointwise")


def test_kernels_take_their_limit_over_the_share_of_their_kind():
    assert predict(profile(PRODUCT, ADD)) == pytest.approx(0.010 / 0.5 + 0.004 / 0.8)


def test_no_kernel_is_shorter_than_the_shortest():
    assert predict(profile(TINY)) == pytest.approx(1000 * 1e-6)


def test_the_host_binds_where_its_calls_take_longer():
    assert predict(profile(PRODUCT, calls=10_000)) == pytest.approx(0.1)
    assert predict(profile(PRODUCT, calls=1000, device="cpu")) == pytest.approx(0.020 + 0.010)


def test_views_and_convolutions_take_the_host_a_time_of_their_own():
    host = replace(DEVICE, host_convolution=3e-5, host_view=1e-6)
    seen = Coverage(counted={"aten.mm": 100, "aten.convolution": 10}, free={"aten.view": 1000, "aten.clone": 5})
    p = replace(profile(), coverage=seen, ceilings=host)

    assert predict(p) == pytest.approx(105 * 1e-5 + 10 * 3e-5 + 1000 * 1e-6)


def test_without_measured_efficiencies_nothing_is_predicted():
    assert predict(profile(PRODUCT, ceilings=replace(DEVICE, efficiency={}))) is None
    assert predict(profile(PRODUCT, ceilings=None)) is None
