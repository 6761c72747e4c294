"""The tree as text: folding, limits, marks, width, plainness."""

import re

import pytest
from profiles import block, lenet, linear, module, oddities, rooted, stack

from flopsight.render import render
from flopsight.results.caveats import BadFormula, Note
from flopsight.results.coverage import Coverage, UnknownOp
from flopsight.results.profile import Profile


def tree(profile, **options):
    return render(profile, "tree", **({"width": 120} | options))


def deep(n):
    """A stack in which no block is like another, so that nothing folds."""
    blocks = [block(str(i), 4 + i, 8) for i in range(n)]
    return Profile(rooted(module("", "Deep", *blocks)))


def rows(text):
    """The rows of the grid, which stands behind the title and the headline."""
    return text.split("\n\n")[2].splitlines()[2:]


def test_printing_a_profile_draws_its_tree(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    profile = lenet()

    assert str(profile) == tree(profile, width=100)


def test_identical_blocks_are_one_row_with_a_count_and_the_sum():
    text = tree(stack(12, width=768))

    (row,) = (line for line in rows(text) if "x 12" in line)
    assert row.split()[:4] == ["0-11:", "Block", "x", "12"]
    assert "85.0 M" in row  # 12 * (12 * 768^2 + 9 * 768) = 85,017,600
    assert 12 * (12 * 768**2 + 9 * 768) == 85_017_600
    assert "x n: n identical blocks in one row; their figures are summed" in text


def test_full_draws_every_module():
    profile = stack(12, width=8)

    assert len(rows(tree(profile, full=True))) == len(profile.nodes)


def test_left_out_rows_are_counted_and_the_way_to_all_is_told():
    profile = deep(40)
    text = tree(profile, max_rows=20)
    shown = rows(text)

    (said,) = re.findall(r"\[\+n\]: (\d+) rows are left out", text)
    rest = [line for line in shown if "more)" in line]
    assert len(shown) == 20
    assert int(said) + len(shown) - len(rest) == len(profile.nodes)
    assert 'profile.render("tree", full=True)' in text
    assert "flopsight show FILE -f tree --full" in " ".join(text.split())


def test_a_small_tree_leaves_nothing_out():
    assert "left out" not in tree(lenet())


def test_depth_cuts_the_tree_and_keeps_the_totals():
    text = tree(lenet(), depth=1)

    assert len(rows(text)) == 3
    assert "feature_extractor: Sequential [+8]" in text
    assert "426,516,480 (427 M)" in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_the_text_keeps_to_the_width(make, width):
    assert max(map(len, tree(make(), width=width).splitlines())) <= width


@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_the_text_is_ascii(make):
    assert tree(make()).isascii()


def test_narrow_pages_keep_the_figures_that_matter_most():
    header = tree(stack(), width=60).split("\n\n")[2].splitlines()[0]

    assert {"module", "params", "FLOPs", "latency"} <= set(header.split())
    assert "MACs" not in header


def test_narrow_pages_keep_counts_and_marks():
    assert "0-11 x 12" in tree(stack(), width=60)
    assert "spare [not called]" in tree(oddities(), width=44)


def test_marks_and_calls_stand_beside_the_module():
    text = tree(oddities())

    assert "shared: Linear, 3 calls" in text
    assert "spare: Linear [not called]" in text
    assert "skipped: Linear [ignored]" in text
    assert "<outside>: loss, glue" in text


def test_a_container_of_called_modules_is_not_marked():
    assert "layer: ModuleList [" not in tree(stack(2, width=8))


def test_repeated_calls_inside_a_stack_are_counted_for_each_block():
    blocks = [module(str(i), "Block", module("act", "ReLU", flops=8, calls=2)) for i in range(3)]

    text = tree(Profile(rooted(module("", "Net", *blocks))))

    assert "0-2: Block x 3" in text
    assert "act: ReLU, 2 calls each" in text


def test_where_only_unknown_ops_ran_the_cell_is_a_question_and_not_zero():
    (row,) = (line for line in rows(tree(oddities())) if "mystery" in line)

    assert "[2 op calls unknown]" in row
    assert row.split("unknown]")[1].split()[1:3] == ["?", "?"]


def test_coverage_is_always_told():
    assert "coverage 100% of 14 op calls" in tree(lenet())


def test_unknown_ops_are_named_with_calls_place_and_remedy():
    text = tree(oddities())

    assert "coverage 88.2% of 17 op calls, 90.0% of the bytes they move; 2 calls not in the totals:" in text
    assert 'mylib.spin: 2 calls in mystery. Say what it costs: @flopsight.formula("mylib.spin")' in text


def test_a_formula_that_failed_is_told_by_its_complaint():
    gap = Coverage(
        unknown={
            "my.op": UnknownOp(
                1, ("fc",), why="the formula f() at x.py:3 failed on my.op(): no such shape", failed=True
            )
        }
    )

    text = tree(Profile(rooted(linear("", 1, 1, 1)), coverage=gap, caveats=(BadFormula("my.op", "f() failed"),)))

    assert "my.op: 1 call in fc. The formula f() at x.py:3 failed on my.op(): no such shape" in text
    assert "Say what it costs" not in text
    assert "note:" not in text


def test_coverage_that_is_almost_whole_is_not_rounded_up():
    gap = Coverage(counted={"aten.mm": 99_999}, unknown={"my.op": UnknownOp(1)})

    assert "coverage 99.9% of 100,000 op calls" in tree(Profile(rooted(linear("", 1, 1, 1)), coverage=gap))


def test_caveats_are_shown_but_not_twice():
    text = tree(oddities())

    assert text.count("mylib.spin") == 2  # name and remedy of the coverage; its caveat adds nothing
    assert "note: Per-module times come from a pass 1.30x as long" in text
    assert "note: mind the gap" in tree(Profile(rooted(module("", "Net")), caveats=(Note("mind the gap"),)))


def test_an_empty_model_has_a_page():
    text = tree(Profile(rooted(module("", "Empty"))))

    assert "Empty" in text
    assert "coverage 100% of 0 op calls" in text


def test_ten_thousand_rows_are_text_in_a_moment():
    layers = [linear(f"part_{i}_x", 1 + i, 8, 8) for i in range(10_000)]
    profile = Profile(rooted(module("", "Wide", *layers)))

    assert len(rows(tree(profile, full=True))) == 10_001
    assert len(rows(tree(profile))) == 100
    assert "(9902 more)" in tree(profile)


def test_a_training_profile_keeps_what_matters_in_80_columns():
    head = next(line for line in render(stack(), "tree", width=80).splitlines() if line.startswith("module"))

    assert head.split() == ["module", "params", "FLOPs", "%", "backward", "saved", "latency", "%"]
