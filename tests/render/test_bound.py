"""Modules against their limits, as a page."""

from dataclasses import replace

import pytest
from profiles import lenet, module, rooted, stack

from flopsight.analysis.limits.bounds import bound_rows
from flopsight.errors import InputError
from flopsight.render import render
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing

DEVICE = Ceilings("Round", {"bfloat16": 1e12}, 1e10, cache=10**6)
FLASH = OpRow(
    "aten._scaled_dot_product_flash_attention",
    "forward",
    1,
    Cost(macs=10**9, bytes=10**5),
    dtype="bfloat16",
    seconds=0.004,
)
SMALL = OpRow("aten.add", "forward", 1, Cost(bytes=10**5), dtype="bfloat16", kind="pointwise", seconds=0.001)


def attending():
    """Attention of 2 ms at the limit that takes 4 ms, beside an addition in the same module."""
    inner = module("attention", "Attention", ops=(FLASH, SMALL), macs=10**9, moved=2 * 10**5, latency=0.005)
    timing = Timing(forward=Stat((0.006,)), busy=0.006, idle=0.0)
    root = rooted(module("", "Model", inner, latency=0.005))
    return Profile(root, timing=timing, ceilings=DEVICE, environment=Environment(device="cuda", dtype="bfloat16"))


def test_a_module_shows_its_time_its_limit_and_what_could_be_won():
    p = attending()
    rows = {row.row.path + row.row.kind: row for row in bound_rows(p.root, p, DEVICE)}
    node = rows["attentionAttention"]

    assert node.seconds == 0.005
    assert node.limit == pytest.approx(0.002 + 1e-5)
    assert node.share == pytest.approx(0.00201 / 0.005)
    assert node.win == pytest.approx(0.005 - 0.00201)
    assert node.bound == "compute"
    assert node.rate == pytest.approx(2 * 10**9 / 0.005)


def test_attention_inside_a_module_has_a_row_of_its_own():
    p = attending()
    (row,) = (row for row in bound_rows(p.root, p, DEVICE) if row.attention)

    assert (row.seconds, row.limit, row.row.depth) == (0.004, pytest.approx(0.002), 2)
    assert "scaled_dot_product_flash_attention" in render(p, "bound", width=200)


def test_attention_is_named_by_its_forward_also_where_its_backward_is_larger():
    back = replace(FLASH, op=f"{FLASH.op}_backward", phase="backward", cost=Cost(macs=3 * 10**9, bytes=10**5))
    p = replace(attending(), root=rooted(module("", "Model", module("a", "Attention", ops=(back, FLASH, SMALL)))))
    (row,) = (row for row in bound_rows(p.root, p, DEVICE) if row.attention)

    assert row.row.kind == "scaled_dot_product_flash_attention"
    assert row.limit == pytest.approx(0.002 + 0.006)


def test_the_optimizers_step_has_a_row_and_is_no_part_of_the_modules():
    update = OpRow("aten.mul_", "optimizer", 1, Cost(bytes=10**8), dtype="bfloat16", seconds=0.02)
    layer = module("a", "Add", ops=(SMALL, update), moved=10**5, optimizer=Cost(bytes=10**8), latency=0.001)
    timing = Timing(forward=Stat((0.001,)), optimizer=Stat((0.025,)), busy=0.001, idle=0.0)
    p = replace(attending(), root=rooted(module("", "Model", layer, latency=0.001)), timing=timing)
    root, *_, step = bound_rows(p.root, p, DEVICE)

    assert (step.row.kind, step.seconds, step.limit) == ("the optimizer's step", 0.025, pytest.approx(0.010))
    assert root.limit == pytest.approx(1e-5)
    assert p.limit() == pytest.approx(root.limit + step.limit)
    # without times its own are those of its ops
    assert bound_rows(p.root, replace(p, timing=Timing()), DEVICE)[-1].seconds == 0.02


def test_a_row_that_is_faster_than_its_limit_says_why_that_can_be():
    def text(latency):
        add = module("a", "Add", ops=(replace(SMALL, cost=Cost(bytes=10**8)),), moved=10**8, latency=latency)
        return render(replace(attending(), root=rooted(module("", "Model", add, latency=latency))), "bound", width=200)

    assert "100%!" in text(0.005)  # 10 ms at the limit
    assert "200" not in text(0.005)
    assert "!: faster than its limit" in text(0.005)
    assert "!" not in text(0.020)


def test_a_list_of_modules_has_the_fused_limit_of_its_parts():
    # each layer moves 10^6 bytes unfused and 2 * 4 * 10^4 with its ends alone: 8 us
    layers = [module(str(i), "Act", ops=(replace(SMALL, cost=Cost(bytes=10**6)),), moved=10**6, takes=(10**4,), gives=(10**4,))
              for i in range(3)]  # fmt: skip
    p = replace(attending(), root=rooted(module("", "Model", module("layers", "ModuleList", *layers, calls=0))))
    rows = {row.row.path: row for row in bound_rows(p.root, p, DEVICE)}

    assert rows["layers.0"].fused == pytest.approx(8e-6)
    assert rows["layers"].fused == pytest.approx(3 * 8e-6)


def test_a_module_whose_data_fits_the_cache_is_marked():
    alone = replace(
        attending(), root=rooted(module("", "Model", module("add", "Add", ops=(SMALL,), moved=10**5, latency=1e-6)))
    )
    text = render(alone, "bound", width=200)

    assert "memory*" in text
    assert "its data fits the cache" in text


def decoding(layers):
    """Layers whose weights of 8 * 10^5 bytes are nearly all that a step moves; the cache holds 10^6 bytes."""
    row = OpRow("aten.mm", "forward", 1, Cost(macs=4 * 10**5, bytes=81 * 10**4), dtype="bfloat16")
    each = [
        module(str(i), "Linear", ops=(row,), macs=4 * 10**5, moved=81 * 10**4, params=(2 * 10**5,))
        for i in range(layers)
    ]
    return replace(attending(), root=rooted(module("", "Model", *each)), timing=Timing())


def test_weights_that_others_evict_are_not_in_the_cache():
    assert "memory*" in render(decoding(1), "bound", width=200)
    assert "memory*" not in render(decoding(2), "bound", width=200)


def test_on_a_named_device_there_are_limits_and_no_times():
    text = render(stack(), "bound", on="h100-sxm", width=200)

    assert "limit" in text
    assert "to win" not in text
    assert "datasheet of H100 SXM5 80GB" in text


def test_without_a_peak_the_page_says_why():
    assert "No limits: no peak of cpu is known; flopsight device --measure finds it" in render(
        lenet(), "bound", width=200
    )


def test_an_ambiguous_device_is_refused():
    with pytest.raises(InputError, match="ambiguous"):
        render(stack(), "bound", on="a100")


def test_rows_below_the_root_add_up_to_its_limit():
    p = attending()
    root, *rest = bound_rows(p.root, p, DEVICE)

    assert root.limit == pytest.approx(sum(row.limit for row in rest if row.row.depth == 1))
