"""Limits by arithmetic: a device with round figures, and ops whose work and bytes are typed here."""

import pytest
from profiles import module, rooted

from flopsight import units
from flopsight.analysis.limits.roofline import (
    bound_by,
    compulsory_bytes,
    device_seconds,
    fits_cache,
    fused_limit,
    roof_of,
)
from flopsight.analysis.merging import merged
from flopsight.analysis.passes import to_depth
from flopsight.errors import InputError
from flopsight.hardware.peaks import lookup
from flopsight.results.ceilings import Ceilings
from flopsight.results.comm import CommRow
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing

TERA, GIGA = 10**12, 10**9
DEVICE = Ceilings(
    "Round", {"bfloat16": TERA, "float32": TERA / 10, "float32/cudnn": TERA / 2}, bandwidth=GIGA * 10, cache=10**6
)
"""A ridge at 100 FLOPs per byte in bfloat16."""


def op(
    name, macs=0, moved=0, *, phase="forward", calls=1, dtype="bfloat16", skipped=0, seconds=None, kind="", shapes=()
):
    return OpRow(
        name, phase, calls, Cost(macs, bytes=moved, skipped_macs=skipped), "counted", shapes, dtype, kind, seconds
    )


def leaf(name, kind, *ops, **more):
    """A module whose own costs are those of its op rows."""
    own = {phase: Cost() for phase in ("forward", "backward", "recompute", "optimizer")}
    for row in ops:
        own[row.phase] += row.cost
    forward = own.pop("forward")
    return module(name, kind, macs=forward.macs, moved=forward.bytes, ops=ops, **own, **more)


def profile(*children, ceilings=DEVICE, **more):
    return Profile(
        rooted(module("", "Model", *children)), ceilings=ceilings, environment=Environment(dtype="bfloat16"), **more
    )


PRODUCT = op("aten.mm", macs=5 * 10**9, moved=10**7)
"""10^10 FLOPs at 10^12 FLOP/s are 10 ms, 10^7 bytes at 10^10 B/s are 1 ms."""
ADD = op("aten.add", moved=4 * 10**7)
"""4 ms of bytes."""


def test_every_op_takes_the_larger_of_work_and_bytes_and_the_sum_adds_up_over_the_tree():
    p = profile(leaf("a", "Linear", PRODUCT), leaf("b", "Add", ADD))

    assert p["a"].limit() == pytest.approx(0.010)
    assert p["b"].limit() == pytest.approx(0.004)
    assert p.limit() == pytest.approx(0.014)


def test_calls_of_one_op_in_one_module_are_bound_each_for_itself_also_where_a_view_cuts_the_tree():
    thin = op("aten.mm", macs=10**6, moved=10**7)
    """2 us of work, 1 ms of bytes."""
    p = profile(leaf("block", "Block", PRODUCT, thin, op("aten.mm", macs=5 * 10**9, moved=10**7)))
    assert [roof_of(root, DEVICE).limit for root in (p.root, to_depth(0)(p.root))] == pytest.approx([0.021, 0.021])
    block = p["block"]
    assert [row.calls for row in merged([block, block], path="", name="", kind="", children=()).ops] == [4, 2]


def test_an_op_runs_at_the_peak_of_its_own_dtype_and_a_convolution_at_cudnns():
    wide = op("aten.mm", macs=5 * 10**9, dtype="float32")
    conv = op("aten.convolution", macs=5 * 10**9, dtype="float32")

    assert profile(leaf("a", "Linear", wide)).limit() == pytest.approx(0.1)
    assert profile(leaf("a", "Conv2d", conv)).limit() == pytest.approx(0.02)


def test_what_a_causal_mask_hides_needs_no_time():
    half = op("aten._scaled_dot_product_flash_attention", macs=10**10, skipped=5 * 10**9)

    assert profile(leaf("a", "Attention", half)).limit() == pytest.approx(0.010)


def test_all_phases_that_ran_count():
    backward = op("aten.mm", macs=10**10, phase="backward")
    update = op("aten._fused_adamw_", moved=10**7, phase="optimizer")
    p = profile(leaf("a", "Linear", PRODUCT, backward, update))

    assert p["a"].limit() == pytest.approx(0.010 + 0.020 + 0.001)
    assert p.limit() == pytest.approx(0.031)


def test_without_a_peak_for_a_dtype_there_is_no_limit_and_nothing_binds():
    p = profile(leaf("a", "Linear", op("aten.mm", macs=5, dtype="float64")), leaf("b", "Add", ADD))

    assert p.limit() is None
    assert p["a"].bound() is None
    assert p["b"].limit() == pytest.approx(0.004)


def test_an_unknown_device_has_no_limit_and_a_known_name_has_the_tables():
    nowhere = profile(leaf("a", "Linear", PRODUCT), ceilings=None)
    assert nowhere.limit() is None

    h100 = lookup("h100-sxm")
    assert nowhere.limit("h100-sxm") == pytest.approx(10**10 / h100.peaks["bf16"].value)
    with pytest.raises(InputError, match="ambiguous. Write one of: h100-sxm"):
        nowhere.limit("h100")


def test_costs_without_op_rows_are_held_against_the_models_dtype():
    p = profile(module("a", "Linear", macs=5 * 10**9, moved=10**7))

    assert p.limit() == pytest.approx(0.010)


def test_what_binds_is_what_most_of_the_limit_goes_to():
    assert profile(leaf("a", "Linear", PRODUCT))["a"].bound() == "compute"
    assert profile(leaf("b", "Add", ADD))["b"].bound() == "memory"


def test_bytes_that_fusion_would_save_make_the_answer_depend_on_it():
    # 10 ms of products and 20 ms of unfused bytes; the module's own ends are 4 * 2 * 10^6 bytes, 0.8 ms
    row = leaf("a", "Block", PRODUCT, op("aten.add", moved=2 * 10**8), takes=(10**6,), gives=(10**6,))
    p = profile(row)
    node = p["a"]

    assert compulsory_bytes(node) == 8 * 10**6
    assert node.bound() == "depends on fusion"
    assert fused_limit(node, DEVICE) == pytest.approx(0.010)
    # the same with ends of 200 MB: then memory binds either way
    wide = leaf("a", "Block", PRODUCT, op("aten.add", moved=2 * 10**8), takes=(25 * 10**6,), gives=(25 * 10**6,))
    assert profile(wide)["a"].bound() == "memory"


def test_a_backward_moves_the_compulsory_bytes_three_times():
    node = profile(leaf("a", "Add", ADD, op("aten.add", moved=10, phase="backward"), takes=(1000,), gives=(1000,)))["a"]

    assert compulsory_bytes(node) == 3 * 8000


def test_collectives_bind_where_the_link_takes_longer_than_all_work():
    linked = Ceilings("Linked", {"bfloat16": TERA}, bandwidth=GIGA * 10, link=float(GIGA))
    sent = CommRow("all_reduce", "backward", 1, 10**7, 2 * 10**7, 2)
    # 20 ms over the link against 10 ms of work; a set-up exchange is not part of a step
    assert bound_by(leaf("a", "Linear", PRODUCT, comm=(sent,)), linked) == "communication"
    setup = CommRow("all_reduce", "backward", 1, 10**7, 2 * 10**7, 2, setup=True)
    assert bound_by(leaf("a", "Linear", PRODUCT, comm=(setup,)), linked) == "compute"
    assert roof_of(leaf("a", "Linear", op("c10d.allreduce_", moved=10**9)), linked).limit == 0


def test_launches_bind_where_the_device_had_no_kernel_for_most_of_the_time():
    def timed(idle):
        timing = Timing(forward=Stat((0.010,)), busy=0.010 - idle, idle=idle)
        return profile(leaf("a", "Linear", PRODUCT, latency=0.001, stream_latency=0.004), timing=timing)

    assert timed(0.006).bound() == "launch"
    assert timed(0.004).bound() == "compute"
    assert timed(0.004)["a"].bound() == "launch"  # 3 of its 4 ms are idle
    assert timed(0.006).bound("h100-sxm") == "compute"  # nothing was timed there
    assert device_seconds(timed(0.006)) == pytest.approx(0.004)


def test_a_module_whose_calls_fit_the_cache_says_so():
    assert fits_cache(leaf("a", "Add", op("aten.add", moved=10**7, calls=10)), DEVICE)
    assert not fits_cache(leaf("a", "Add", op("aten.add", moved=10**7, calls=9)), DEVICE)


def test_intensity_is_flops_over_bytes():
    assert profile(leaf("a", "Linear", PRODUCT))["a"].intensity == 1000
    assert profile(leaf("a", "View"))["a"].intensity is None
    assert DEVICE.ridge("bfloat16") == 100


def test_mfu_of_a_step_time_of_ones_own():
    p = profile(leaf("a", "Linear", PRODUCT), peak_flops={"bfloat16": TERA})

    assert p.mfu_at(0.020) == pytest.approx(0.5)
    peak = lookup("h100-sxm").peaks["bf16"].value
    assert p.mfu_at(0.020, "h100-sxm") == pytest.approx(10**10 / 0.020 / peak)
    assert profile(leaf("a", "Linear", PRODUCT)).mfu_at(1.0) is None
    with pytest.raises(InputError, match="above 0"):
        p.mfu_at(0)


def test_a_float32_convolution_may_use_tf32_on_a_named_device_and_a_product_may_not():
    h100 = lookup("h100-sxm")
    conv = profile(leaf("a", "Conv2d", op("aten.convolution", macs=10**9, dtype="float32")))
    product = profile(leaf("a", "Linear", op("aten.mm", macs=10**9, dtype="float32")))

    assert conv.limit("h100-sxm") == pytest.approx(2 * 10**9 / h100.peaks["tf32"].value)
    assert product.limit("h100-sxm") == pytest.approx(2 * 10**9 / h100.peaks["fp32"].value)
    assert conv.mfu_at(1.0, "h100-sxm") == pytest.approx(2 * 10**9 / h100.peaks["tf32"].value)


def test_limits_are_small_times_in_text():
    assert units.seconds(profile(leaf("b", "Add", ADD)).limit()) == "4.00 ms"
