"""A prediction by arithmetic: limits over shares."""

from dataclasses import replace

import pytest
from profiles import module, rooted

from flopsight.analysis.limits.fused import served_seconds
from flopsight.analysis.limits.predict import kernel_seconds, predict
from flopsight.analysis.limits.roofline import row_roof
from flopsight.hardware.kernel_shares import shared_ceilings, shares_of
from flopsight.hardware.named import named_device
from flopsight.results.ceilings import MEASURED, Ceilings
from flopsight.results.costs import Cost, OpRow
from flopsight.results.coverage import Coverage
from flopsight.results.profile import Environment, Profile

DEVICE = Ceilings(
    "Round", {"bfloat16": 1e12}, 1e10, source=MEASURED, host={"op": 1e-5, "view": 1e-6, "module": 3e-6}, shortest_kernel=1e-6,
    efficiency={"matmul": ((1e-2, 0.5),), "pointwise": ((1e-2, 0.8),)},
)  # fmt: skip


def leaf(name, *rows, **more):
    return module(name, "Layer", ops=rows, macs=sum(row.cost.macs for row in rows if row.phase == "forward"), **more)


def profile(*rows, views=0, device="cuda", ceilings=DEVICE, calls=0, children=()):
    root = rooted(module("", "Model", *children, ops=rows, macs=sum(row.cost.macs for row in rows), calls=calls))
    ran = sum(row.calls for node in root.walk() for row in node.ops)
    seen = Coverage(counted={"aten.any": ran}, free={"aten.view": views})
    return Profile(root, coverage=seen, environment=Environment(device=device, dtype="bfloat16"), ceilings=ceilings)


PRODUCT = OpRow("aten.any", "forward", 1, Cost(macs=5 * 10**9), dtype="bfloat16")
ADD = OpRow("aten.add", "forward", 1, Cost(bytes=4 * 10**7), dtype="bfloat16", kind="pointwise")
TINY = OpRow("aten.add", "forward", 1000, Cost(bytes=1000), dtype="bfloat16", kind="pointwise")


def test_kernels_take_their_limit_over_the_share_of_their_kind():
    found = predict(profile(PRODUCT, ADD))

    assert found.kernels == pytest.approx(0.010 / 0.5 + 0.004 / 0.8)
    assert found.host == pytest.approx(2e-5)
    assert found.step == pytest.approx(1e-5 + found.kernels), "the first is handed over, the second while it runs"


def test_no_kernel_is_shorter_than_the_shortest():
    assert predict(profile(TINY)).kernels == pytest.approx(1000 * 1e-6)


def test_the_device_waits_for_a_host_that_is_slower_than_it():
    # 1,000 calls of 10 us, each with a kernel of 1 us: the last one is left when the host is done
    assert predict(profile(TINY)).step == pytest.approx(1000 * 1e-5 + 1e-6)


def test_a_long_kernel_after_many_short_calls_begins_when_it_is_handed_over():
    # 10 ms of calls in the blocks, then a head of 20 ms that the host cannot hand over earlier
    both = profile(children=(leaf("blocks", TINY, calls=0), leaf("head", PRODUCT, calls=0)))
    turned = profile(children=(leaf("head", PRODUCT, calls=0), leaf("blocks", TINY, calls=0)))

    assert predict(both).step == pytest.approx(0.010 + 1e-5 + 0.020)
    # the other way round the calls are made while the head runs, and the short kernels follow it
    assert predict(turned).step == pytest.approx(1e-5 + 0.020 + 1000 * 1e-6)


def test_backward_goes_through_the_modules_from_the_last_to_the_first():
    back = {name: replace(row, phase="backward") for name, row in (("head", PRODUCT), ("blocks", TINY))}
    found = predict(profile(children=(leaf("blocks", back["blocks"], calls=0), leaf("head", back["head"], calls=0))))

    assert found.step == pytest.approx(1e-5 + 0.020 + 1000 * 1e-6)


def test_on_a_cpu_calls_and_kernels_take_turns():
    found = predict(profile(TINY, device="cpu"))

    assert found.step == pytest.approx(found.kernels + found.host) == pytest.approx(1000 * 11e-6)


def test_views_modules_and_kinds_of_op_have_prices_of_their_own():
    conv = replace(TINY, op="aten.convolution", calls=10)
    norm = replace(TINY, op="aten.native_batch_norm", calls=5)
    prices = {**DEVICE.host, "convolution": 3e-5, "batch norm": 2e-5}
    found = predict(profile(conv, norm, TINY, views=200, calls=7, ceilings=replace(DEVICE, host=prices)))

    assert found.host == pytest.approx(10 * 3e-5 + 5 * 2e-5 + 1000 * 1e-5 + 200 * 1e-6 + 7 * 3e-6)


def test_a_kind_that_was_not_measured_takes_the_share_of_a_broader_one():
    thin = replace(PRODUCT, op="aten.mm", shapes=(((64, 1000), (1000, 50257)),))  # an odd size, so a kind of its own

    assert predict(profile(thin)).kernels == pytest.approx(0.010 / 0.5)


def test_a_server_fuses_chains_copies_nothing_and_waits_for_no_host():
    """A product at half of its limit, a third of an add at 0.8 of its own, no copy of a cache, no call of the host."""
    copy = OpRow("aten.cat", "forward", 1, Cost(bytes=10**9), dtype="bfloat16", kind="copy")
    silu = OpRow("aten.silu", "forward", 1, Cost(flops=1, bytes=10**7), dtype="bfloat16", kind="pointwise")
    found = profile(PRODUCT, copy, silu)
    alone = [row_roof(row, DEVICE).limit for row in (PRODUCT, silu)]

    assert served_seconds(found, DEVICE) == pytest.approx(alone[0] / 0.5 + alone[1] / 0.8 / 3)
    assert served_seconds(found, replace(DEVICE, flops={})) is None


def test_shares_of_a_generation_stand_for_measured_ones():
    """10 ms of reading weights at 0.8 of the bandwidth, and one kernel's 2 us."""
    shares = replace(shares_of(named_device("h100-sxm")), reads=0.8)
    thin = OpRow(
        "aten.mm", "forward", 1, Cost(macs=1, bytes=10**10), dtype="float32", kind="matrix", shapes=(((1, 8), (8, 8)),)
    )
    device = shared_ceilings(Ceilings("a device", flops={"float32": 1e12}, bandwidth=1e12), shares)

    assert kernel_seconds(thin, device, "float32") == pytest.approx(0.010 / 0.8 + 2e-6, rel=1e-3)
    assert kernel_seconds(replace(thin, cost=Cost(macs=1, bytes=10)), device, "float32") == pytest.approx(
        2e-6, rel=1e-3
    )


def test_without_measured_efficiencies_nothing_is_predicted():
    assert predict(profile(PRODUCT, ceilings=replace(DEVICE, efficiency={}))) is None
    assert predict(profile(PRODUCT, ceilings=None)) is None
