"""The data of the page that compares two profiles."""

from dataclasses import replace

from profiles import lenet, module, rooted

from flopsight.analysis.compare import compare
from flopsight.analysis.figures import BOOK
from flopsight.analysis.report.page_diff import diff_report, diff_tiles, diff_verdict
from flopsight.results.costs import Cost
from flopsight.results.profile import Profile


def net(*children):
    return Profile(rooted(module("", "Net", *children)))


def test_modules_are_ranked_by_what_their_change_weighs():
    before = net(module("small", "A", flops=10), module("large", "B", flops=10), module("gone", "C", flops=7))
    after = net(module("small", "A", flops=11), module("large", "B", flops=500), module("fresh", "D", flops=40))

    _, modules = diff_report(compare(before, after))["diff"]

    # +490, +40 (all of a new module), -7 (all of a removed one), +1
    assert [(row[0], row[2], row[3]) for row in modules["rows"]] == [
        ("large", "changed", 490),
        ("fresh", "new", 40),
        ("gone", "removed", -7),
        ("small", "changed", 1),
    ]


def test_a_row_leads_to_its_module_unless_it_is_gone():
    page = diff_report(compare(net(module("gone", "A", flops=1)), net(module("here", "A", flops=2))))

    leads = {row[0]: place for row, place in zip(page["diff"][1]["rows"], page["diff"][1]["modules"], strict=True)}
    assert leads == {"here": "here", "gone": None}


def test_blocks_of_a_stack_that_changed_alike_are_one_row_of_their_sum():
    def stack(flops):
        return module(
            "h", "ModuleList", *(module(str(i), "Block", module("mlp", "MLP", flops=flops)) for i in range(24))
        )

    before = net(stack(10), module("head", "Linear", flops=100))
    after = net(stack(12), module("head", "Linear", flops=130))

    page = diff_report(compare(before, after))

    # 24 x 2 more weigh more than 30 more, though no block does
    assert [(row[0], row[3]) for row in page["diff"][1]["rows"]] == [("h.0-23.mlp x 24", 48), ("head", 30)]
    assert page["diff"][1]["modules"] == ["h.0-23.mlp", "head"]


def test_the_tree_carries_the_change_of_every_subtree():
    before = net(module("a", "A", module("b", "B", flops=5)))
    after = net(module("a", "A", module("b", "B", flops=9)))

    page = diff_report(compare(before, after))

    change = next(metric for metric in page["modules"]["metrics"] if metric["id"] == "more_flops")
    assert change["total"] == [4, 4, 4]


def test_a_change_says_that_its_flops_are_those_of_the_whole_step():
    before = net(module("a", "A", flops=5, backward=Cost(flops=10)))
    after = net(module("a", "A", flops=6, backward=Cost(flops=12)))

    page = diff_report(compare(before, after))

    # 1 more forward and 2 backward
    (row,) = page["diff"][1]["rows"]
    assert (
        dict(zip([one["label"] for one in page["diff"][1]["columns"]], row, strict=True))["change in FLOPs of the step"]
        == 3
    )
    assert page["modules"]["metrics"][0]["label"] == "change in FLOPs of the step"


def test_times_that_cannot_be_compared_are_not_shown_and_the_page_says_why():
    there = replace(lenet(), environment=replace(lenet().environment, device_name="another"))

    page = diff_report(compare(lenet(), there))

    assert not [row for row in page["diff"][0]["rows"] if BOOK["latency"].full == row[0]]
    assert "Times are not compared" in page["caveats"][-1]["text"]


def test_the_figures_have_the_names_of_the_other_views_and_those_that_are_nothing_are_left_out():
    page = diff_report(compare(net(module("a", "A", flops=10)), net(module("a", "A", flops=15))))

    assert ["forward FLOPs", "10", "15", 0.5] in page["diff"][0]["rows"]
    # neither side has a backward, an optimizer or a peak
    assert [row[1:3] for row in page["diff"][0]["rows"] if row[1] == row[2] == "0"] == []


def test_a_page_of_a_comparison_is_one_file(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    comparison = compare(net(module("a", "A", flops=1)), net(module("a", evil, flops=2)))

    text = comparison.to_html(tmp_path / "new" / "diff.html").read_text(encoding="utf-8")

    assert evil not in text
    assert text.count("</script>") == 2


def test_the_tiles_have_both_values_and_whether_they_are_for_the_worse():
    little, much = net(module("a", "A", flops=10)), net(module("a", "A", flops=15))

    more, less = (diff_tiles(compare(*pair)) for pair in ((little, much), (much, little)))

    wanted = {"label": "Forward FLOPs", "touches": ""}
    assert wanted | {"value": "+50.0%", "note": "10 to 15", "tone": "grew"} in more
    assert wanted | {"value": "-33.3%", "note": "15 to 10", "tone": "fell"} in less


def test_the_verdict_names_the_heaviest_change():
    before = net(module("a", "A", flops=10))
    after = net(module("a", "A", flops=11), module("b", "B", flops=2_000))

    assert diff_verdict(compare(before, before)) == "Nothing changed."
    assert (
        diff_verdict(compare(before, after)) == "Heaviest of 2 changes: b (B), new: +2.00 k FLOPs of the step (99.5%)"
    )  # 2000 of 2011


def test_new_blocks_of_a_stack_are_told_from_those_that_were_there():
    def stack(number):
        return net(
            module("h", "ModuleList", *(module(str(i), "Block", module("up", "A", flops=7)) for i in range(number)))
        )

    said = diff_verdict(compare(stack(4), stack(6)))
    assert said == "One change: 2 of h.0-5 x 6 (Block), new: +14 FLOPs of the step (33.3%)"


def test_the_verdict_names_the_figure_that_makes_a_change_the_heaviest():
    before = net(module("a", "A", flops=1000, saved=8), module("b", "B", flops=10**6))
    after = net(module("a", "A", flops=1001, saved=80_000), module("b", "B", flops=10**6 + 10))

    assert (
        diff_verdict(compare(before, after))
        == "Heaviest of 2 changes: a (A), changed: +80.0 kB saved (100%), +1 FLOPs of the step"
    )


def test_the_page_and_the_text_agree_on_what_is_heaviest():
    # half of the parameters are new in `wide`; `busy` does a thousandth more of the model's work
    before = net(module("wide", "A", params=(1000,)), module("busy", "B", flops=10**9))
    after = net(module("wide", "A", params=(2000,)), module("busy", "B", flops=10**9 + 10**6))
    comparison = compare(before, after)

    _, modules = diff_report(comparison)["diff"]
    assert [row[0] for row in modules["rows"]] == ["wide", "busy"]
    text = comparison.render()
    assert text.index("changed wide") < text.index("changed busy")
