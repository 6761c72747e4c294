"""A pass hides, it never moves a total."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import lenet, linear, module, oddities, rooted, stack
from random_trees import trees

from flopsight.analysis.folding import fold
from flopsight.analysis.merging import Group
from flopsight.analysis.passes import to_depth, to_rows, without_idle
from flopsight.results.costs import Cost


def totals(root):
    calls = Counter()
    for node in root.walk():
        for row in node.ops:
            calls[row.op, row.phase, row.status] += row.calls
    return (
        root.total,
        root.params,
        root.trainable_params,
        root.param_bytes,
        root.activation_bytes,
        root.peak_bytes,
        calls,
    )


PASSES = {
    "fold": st.just(fold),
    "without_idle": st.just(without_idle),
    "to_depth": st.integers(0, 3).map(to_depth),
    "to_rows": st.integers(1, 9).map(to_rows),
}


@pytest.mark.parametrize("name", PASSES)
@given(root=trees, data=st.data())
def test_no_pass_moves_a_total(name, root, data):
    work = data.draw(PASSES[name])
    before = totals(root)

    after = work(root)

    assert totals(after)[:-1] == before[:-1]
    if name != "without_idle":
        assert totals(after)[-1] == before[-1]


@given(root=trees, limit=st.integers(2, 9))
def test_passes_in_a_row_move_no_total_and_keep_to_the_limit(root, limit):
    view = to_rows(limit)(to_depth(2)(fold(root)))

    assert totals(view) == totals(root)
    assert sum(1 for _ in view.walk()) <= limit


@given(root=trees)
def test_every_row_a_pass_draws_is_at_most_its_parent(root):
    for node in to_rows(5)(fold(root)).walk():
        for child in node.children:
            assert child.flops <= node.flops
            assert child.params <= node.params


def test_a_stack_of_identical_blocks_folds_into_one_row_with_the_sums():
    profile = stack(layers=12, width=16)
    whole = profile["encoder.layer"]

    (folded,) = fold(profile.root).children[0].children[0].children

    assert (folded.name, folded.kind, folded.times) == ("0-11", "Block", 12)
    assert folded.path == "encoder.layer.0-11"
    assert folded.params == whole.params == 12 * (12 * 16 * 16 + 9 * 16)
    assert folded.macs == whole.macs
    assert folded.latency == pytest.approx(sum(0.001 + i * 1e-5 for i in range(12)))
    assert [child.path for child in folded.children] == ["encoder.layer.0-11.attention", "encoder.layer.0-11.mlp"]
    assert folded.children[0].times == 12


def test_a_block_that_costs_more_breaks_the_stack_in_two():
    blocks = [module(str(i), "Block", linear("fc", 4, 8, 8), flops=100 if i == 2 else 50) for i in range(5)]

    folded = fold(rooted(module("", "Net", *blocks)))

    assert [child.name for child in folded.children] == ["0-1", "2", "3-4"]


def test_a_difference_deep_inside_a_block_keeps_it_apart():
    blocks = [module(str(i), "Block", linear("fc", 4, 8, 8 if i else 9)) for i in range(3)]

    folded = fold(rooted(module("", "Net", *blocks)))

    assert [child.name for child in folded.children] == ["0", "1-2"]


def test_blocks_of_another_shape_or_state_stay_apart():
    blocks = [
        module("0", "Block", gives=(4, 8)), module("1", "Block", gives=(4, 9)), module("2", "Block", gives=(4, 9), ignored=True),
        module("3", "Block", gives=(4, 9), calls=0),
    ]  # fmt: skip

    assert len(fold(rooted(module("", "Net", *blocks))).children) == 4


def test_numbered_names_fold_only_for_blocks():
    layers = [module(f"layer{i}", "Block", linear("fc", 4, 8, 8)) for i in (1, 2, 3)]
    root = rooted(
        module(
            "",
            "Net",
            *layers,
            linear("fc1", 4, 8, 8),
            linear("fc2", 4, 8, 8),
            linear("query", 4, 8, 8),
            linear("key", 4, 8, 8),
        )
    )

    assert [child.name for child in fold(root).children] == ["layer1-3", "fc1", "fc2", "query", "key"]


def test_stacks_within_a_stack_fold_too():
    stages = [
        module(str(i), "Stage", *(module(str(j), "Block", linear("fc", 4, 8, 8)) for j in range(3))) for i in range(2)
    ]

    (stage,) = fold(rooted(module("", "Net", *stages))).children
    (inner,) = stage.children

    assert (stage.name, stage.times, inner.name, inner.times) == ("0-1", 2, "0-2", 6)
    assert inner.macs == 6 * 4 * 8 * 8


def test_tied_blocks_hold_their_parameters_once_after_folding():
    fc = linear("fc", 4, 8, 8)
    blocks = [module(str(i), "Block", fc) for i in range(3)]

    (folded,) = fold(rooted(module("", "Net", *blocks))).children

    assert folded.params == 8 * 8 + 8


def test_cutting_at_a_depth_leaves_no_row_below_it():
    profile = lenet()
    cut = to_depth(1)(profile.root)

    assert [node.name for node in cut.walk()] == ["", "feature_extractor", "classifier"]
    assert cut.children[0].own.forward.macs == profile["feature_extractor"].macs
    assert cut.children[0].hidden == 8


def test_a_cut_container_that_was_never_called_itself_still_counts_as_called():
    cut = to_depth(2)(stack(layers=2, width=8).root)

    assert cut.children[0].children[0].kind == "ModuleList"
    assert cut.children[0].children[0].called


def test_what_has_no_parameters_and_no_work_is_left_out():
    root = rooted(
        module(
            "",
            "Net",
            linear("fc", 4, 8, 8),
            module("drop", "Dropout"),
            module("empty", "Block", module("id", "Identity")),
        )
    )

    assert [node.name for node in without_idle(root).walk()] == ["", "fc"]


def test_ignored_modules_are_not_idle():
    assert "skipped" in {node.name for node in without_idle(oddities().root).walk()}


def test_the_heaviest_modules_are_opened_first():
    heavy = module("heavy", "Block", linear("fc", 100, 8, 8), linear("out", 100, 8, 8))
    light = module("light", "Block", linear("fc", 1, 8, 8), linear("out", 1, 8, 8))
    root = rooted(module("", "Net", light, heavy))

    assert [node.path for node in to_rows(5)(root).walk()] == ["", "light", "heavy", "heavy.fc", "heavy.out"]


def test_of_too_many_siblings_the_heaviest_are_drawn_in_order_and_the_others_share_a_row():
    root = rooted(module("", "Net", *(linear(f"fc_{i}_x", 1 + i % 7, 8, 8) for i in range(70))))

    drawn = to_rows(12)(root)
    *shown, rest = drawn.children

    assert len(shown) == 10
    assert all(node.macs == 7 * 64 for node in shown)
    assert isinstance(rest, Group)
    assert (rest.name, rest.times, rest.hidden) == ("(60 more)", 60, 60)
    assert rest.macs == root.macs - 10 * 7 * 64
    assert rest.params == 60 * 72


def test_costs_of_every_phase_survive_a_cut():
    inner = module("fc", "Linear", macs=1, backward=Cost(2, 5), recompute=Cost(3), optimizer=Cost(flops=4))

    cut = to_depth(0)(rooted(module("", "Net", module("block", "Block", inner))))

    assert (cut.own.backward.flops, cut.own.recompute.macs, cut.own.optimizer.flops) == (5, 3, 4)


def test_a_gap_in_the_numbers_ends_a_stack():
    blocks = [linear(str(i), 4, 8, 8) for i in (0, 1, 3, 4)]

    assert [child.name for child in fold(rooted(module("", "Net", *blocks))).children] == ["0-1", "3-4"]


def test_a_name_of_thousands_of_digits_is_a_name():
    blocks = [module("9" * 5000, "Block"), module("1", "Block")]

    assert len(fold(rooted(module("", "Net", *blocks))).children) == 2
