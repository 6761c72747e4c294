"""Modules against their limits, as a page."""

from dataclasses import replace

import pytest
from profiles import lenet, module, rooted, stack

from flopsight.analysis.bounds import bound_rows
from flopsight.ceilings import Ceilings
from flopsight.costs import Cost, OpRow
from flopsight.errors import InputError
from flopsight.render import render
from flopsight.tree import Environment, Profile, Stat, Timing

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


def test_a_module_whose_data_fits_the_cache_is_marked():
    alone = replace(
        attending(), root=rooted(module("", "Model", module("add", "Add", ops=(SMALL,), moved=10**5, latency=1e-6)))
    )
    text = render(alone, "bound", width=200)

    assert "memory*" in text
    assert "its data fits the cache" in text


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
