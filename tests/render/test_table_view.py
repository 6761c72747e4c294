"""The table as text: heaviest modules first, by themselves, then the ops."""

import pytest
from profiles import lenet, module, oddities, rooted, stack

from flopsight.analysis.tables import own_rows
from flopsight.errors import InputError
from flopsight.render import render
from flopsight.render.table import capped
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Profile


def table(profile, **options):
    return render(profile, "table", **({"width": 140} | options))


def rows(text, part=1):
    return text.split("\n\n")[part].splitlines()[2:]


def test_the_heaviest_module_comes_first_by_its_path():
    assert rows(table(lenet()))[0].split()[:2] == ["feature_extractor.3", "Conv2d"]


def test_another_order_can_be_asked_for():
    assert rows(table(lenet(), sort="params"))[0].split()[0] == "feature_extractor.6"

    with pytest.raises(InputError, match="There is no order 'size'"):
        table(lenet(), sort="size")


def test_modules_of_a_stack_share_a_row():
    first = rows(table(stack()))[0]

    assert "encoder.layer.0-11.mlp.up" in first
    assert "Linear x 12" in first


def test_rows_beyond_the_limit_are_summed_in_the_last():
    text = table(lenet(), max_rows=5)
    shown = rows(text)

    assert len(shown) == 5
    assert shown[-1].startswith("(7 more)")
    assert "7 rows are summed in the last one" in text
    everything = own_rows(lenet().root)
    *first, last = capped(everything, 5)[0]
    assert first == everything[:4]
    for name in ("params", "macs", "flops", "latency"):
        assert last[name] == pytest.approx(sum(row[name] for row in everything[4:]))
    assert last.shares["flops"] == pytest.approx(sum(row.shares["flops"] for row in everything[4:]))


def test_full_has_a_row_for_every_module_that_does_something():
    profile = stack(3, width=8)
    working = [node for node in profile.walk() if node.own.flops]

    assert len(rows(table(profile, full=True))) == len(working)


def test_ops_are_listed_with_what_is_unknown_marked():
    op = rows(table(oddities()), part=2)[0].split()

    assert op == ["mylib.spin", "forward", "2", "?", "?", "0.0%", "512", "B", "unknown"]


def test_more_ops_than_fit_are_counted():
    ops = tuple(OpRow(f"aten.op{i}", "forward", 1, Cost(flops=100 - i)) for i in range(20))
    profile = Profile(rooted(module("", "Net", flops=5, ops=ops)))

    assert "5 more ops; all with full=True" in table(profile)
    assert "more ops" not in table(profile, full=True)


def test_on_a_narrow_page_a_path_keeps_its_end():
    assert "attention.self.query" in table(stack(), width=60)
    assert max(map(len, table(stack(), width=60).splitlines())) <= 60


def test_the_row_of_the_rest_has_the_sums_of_the_rest_backward_too():
    layers = [
        module(f"fc_{letter}", "Linear", macs=macs, params=(4,), latency=2.0, backward_latency=float(macs))
        for letter, macs in (("a", 30), ("b", 20), ("c", 10))
    ]
    shown, left_out = capped(own_rows(rooted(module("", "Net", *layers, latency=6.0, backward_latency=60.0))), 2)

    assert left_out == 2
    assert (shown[-1].path, shown[-1]["latency"], shown[-1]["backward_latency"]) == ("(2 more)", 2.0 + 2.0, 20.0 + 10.0)
