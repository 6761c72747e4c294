"""What changed between two profiles, and what breaks a limit."""

from dataclasses import replace

import pytest
from hypothesis import given
from profiles import lenet, linear, module, rooted, stack
from random_trees import trees

from flopsight.analysis.compare import compare, parse_allowed, violations
from flopsight.errors import InputError
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing


def net(*children, **more):
    return Profile(rooted(module("", "Net", *children)), **more)


def timed(*samples, device="NVIDIA H200"):
    return net(linear("fc", 4, 8, 8), timing=Timing(forward=Stat(samples)), environment=Environment(device_name=device))


@given(root=trees)
def test_a_profile_is_the_same_as_itself(root):
    assert compare(Profile(root), Profile(root)).same


@given(before=trees, after=trees)
def test_the_changes_of_modules_add_up_to_the_change_of_the_whole(before, after):
    found = compare(Profile(before), Profile(after))

    moved = sum(
        change.after - change.before for module in found.modules for change in module.changes if change.name == "flops"
    )
    moved += sum(node.flops for node in found.added) - sum(node.flops for node in found.removed)

    assert moved == after.flops - before.flops


def test_a_wider_layer_is_one_changed_module():
    before = net(module("mlp", "Mlp", linear("up", 4, 8, 8), linear("down", 4, 8, 8)))
    after = net(module("mlp", "Mlp", linear("up", 4, 8, 8), linear("down", 4, 8, 16)))

    (changed,) = compare(before, after).modules

    assert changed.path == "mlp.down"
    assert {change.name: (change.before, change.after) for change in changed.changes} == {
        "params": (72, 144), "macs": (4 * 64, 4 * 128), "flops": (2 * 4 * 64 + 32, 2 * 4 * 128 + 64),
    }  # fmt: skip
    assert changed.notes == ("output 4x8 became 4x16",)


def test_a_new_block_is_named_once_and_not_for_each_module_in_it():
    found = compare(stack(3, width=8), stack(4, width=8))

    assert [node.path for node in found.added] == ["encoder.layer.3"]
    assert found.removed == ()
    assert found.modules == ()
    assert found["params"].after - found["params"].before == 12 * 64 + 9 * 8


def test_another_class_at_the_same_place_is_a_change():
    (changed,) = compare(net(module("act", "ReLU")), net(module("act", "GELU"))).modules

    assert changed.notes == ("ReLU became GELU",)


def test_costs_are_compared_to_the_last_unit():
    found = compare(net(module("a", "A", flops=10**12)), net(module("a", "A", flops=10**12 + 1)))

    assert found["flops"].changed
    assert "1,000,000,000,000 -> 1,000,000,000,001" in str(found)


def test_times_within_tolerance_or_spread_have_not_changed():
    steady, slower, noisy = timed(0.100), timed(0.104), timed(0.08, 0.09, 0.12, 0.15, 0.16)

    assert not compare(steady, slower)["latency"].changed
    assert compare(steady, slower, tolerance=0.01)["latency"].changed
    assert not compare(steady, noisy, tolerance=0.01)["latency"].changed
    assert compare(steady, timed(0.2))["latency"].changed


def test_times_of_different_devices_are_not_compared():
    found = compare(timed(0.1), timed(0.5, device="NVIDIA A100"))

    assert not found["latency"].changed
    assert found.why_no_times == "before ran on NVIDIA H200, after on NVIDIA A100"
    assert "latency  " not in str(found)
    assert "Times are not compared: before ran on NVIDIA H200, after on NVIDIA A100." in str(found)


def test_limits_are_read_from_text():
    assert parse_allowed(["flops:0%", "latency: 10%", "params:0.5"]) == {"flops": 0.0, "latency": 0.1, "params": 0.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [("flop:0%", "Did you mean 'flops'"), ("flops", "Write it like flops:0%"), ("flops:lots", "Write it like 10%")],
)
def test_a_bad_limit_is_one_sentence(text, said):
    with pytest.raises(InputError, match=said):
        parse_allowed([text])


def test_growth_beyond_a_limit_is_a_violation_and_shrinking_is_none():
    found = compare(stack(4, width=8), stack(5, width=8))

    (said,) = violations(found, {"params": 0.1, "flops": 0.5})

    before, after = 4 * (12 * 64 + 72) + 18, 5 * (12 * 64 + 72) + 18
    assert said == f"params grew by {after / before - 1:.2%}, 3.38 k to 4.22 k; allowed is 10.00%."
    assert violations(compare(stack(5, width=8), stack(4, width=8)), {"params": 0.0}) == []


def test_less_throughput_is_a_violation():
    fast, slow = (replace(timed(time), batch_size=8) for time in (0.1, 0.2))

    (said,) = violations(compare(fast, slow), {"throughput": 0.1})

    assert said.startswith("throughput fell by 50.00%")
    assert violations(compare(slow, fast), {"throughput": 0.1}) == []


def test_a_limit_that_cannot_be_checked_has_not_been_kept():
    assert violations(compare(timed(0.1), timed(0.1, device="cpu")), {"latency": 0.1}) == [
        "latency cannot be compared: before ran on NVIDIA H200, after on cpu."
    ]
    assert violations(compare(lenet(), lenet()), {"peak_bytes": 0.1}) == [
        "peak_bytes cannot be compared: one of the profiles does not have it."
    ]


def test_something_from_nothing_is_beyond_every_limit():
    found = compare(net(module("a", "A")), net(module("a", "A", flops=5)))

    assert violations(found, {"flops": 1.0}) == ["flops grew from nothing, 0 to 5; allowed is 100.00%."]


def test_like_changes_in_like_blocks_are_one_line():
    text = compare(stack(12, width=8), stack(12, width=16)).render()

    assert "changed encoder.layer.*.mlp.up (12 modules): each output 4x128x32 became 4x128x64" in text


def test_nothing_changed_is_said_in_so_many_words():
    assert "Nothing changed." in str(compare(lenet(), lenet()))


def test_a_comparison_renders_for_a_pull_request():
    text = compare(stack(3, width=8), stack(4, width=8)).render("markdown")

    assert text.startswith("<!-- flopsight diff of ")
    assert "| params | 2.54 k | 3.38 k | +33.1% |" in text
    assert "- added   encoder.layer.3: Block, 840 params" in text


def test_an_unknown_format_of_a_comparison_names_those_there_are():
    with pytest.raises(InputError, match=r"no format 'markdow'. Did you mean 'markdown'\?"):
        compare(lenet(), lenet()).render("markdow")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("a.json", "b.json", "before must be a profile, not str"),
        (lenet(), 3, "after must be a profile, not int"),
        (lenet(), None, "after must be a profile, not NoneType"),
    ],
    ids=["paths", "a number", "nothing"],
)
def test_what_is_no_profile_is_refused_by_its_name(before, after, words):
    with pytest.raises(InputError, match=rf"{words}.*flopsight\.load\(path\)"):
        compare(before, after)


def stages(*kinds):
    """A numbered stack: each kind of block with a width of its own."""
    widths = {"Conv": 8, "Block": 16, "Head": 24}
    parts = (module(str(i), kind, linear("fc", 4, 8, widths[kind])) for i, kind in enumerate(kinds))
    return Profile(rooted(module("", "Net", module("stages", "Sequential", *parts))))


def test_an_inserted_block_is_new_and_those_after_it_are_the_same():
    before = stages("Conv", "Block", "Conv", "Head")

    change = compare(before, stages("Conv", "Block", "Head", "Conv", "Head"))

    assert [node.path for node in change.added] == ["stages.2"]
    assert (change.removed, change.modules) == ((), ())
    assert change.counterparts["stages.3.fc"] == "stages.2.fc"


def test_a_removed_block_is_gone_and_those_after_it_are_the_same():
    change = compare(stages("Conv", "Block", "Conv", "Head"), stages("Conv", "Conv", "Head"))

    assert [node.path for node in change.removed] == ["stages.1"]
    assert (change.added, change.modules) == ((), ())


def test_one_more_of_like_blocks_is_the_last_one():
    change = compare(stages("Block", "Block"), stages("Block", "Block", "Block"))

    assert [node.path for node in change.added] == ["stages.2"]


def test_the_heaviest_change_comes_first():
    before = rooted(module("", "Net", linear("a", 4, 8, 8), linear("b", 4, 8, 8), linear("c", 4, 8, 8)))
    after = rooted(module("", "Net", linear("a", 4, 8, 9), linear("b", 4, 8, 80), linear("c", 4, 8, 16)))

    text = compare(Profile(before), Profile(after)).render()

    assert [line.split()[1] for line in text.splitlines() if line.startswith("changed")] == ["b:", "c:", "a:"]


def test_a_comment_has_a_verdict_the_five_heaviest_changes_and_the_rest_to_open():
    before = rooted(module("", "Net", *(linear(f"fc_{i}_x", 4, 8, 8) for i in range(12))))
    after = rooted(module("", "Net", *(linear(f"fc_{i}_x", 4, 8, 9 + i) for i in range(12))))

    head, rest = compare(Profile(before), Profile(after)).render("markdown").split("<details>")

    # a layer of n outputs is a product and a bias, (2 * 4 * 8 + 4) * n FLOPs, and has 9 * n parameters:
    # n from 8 to 20 in the last one, and from 96 to 9 + 10 + ... + 20 = 174 in all
    assert "**Costs more: forward FLOPs +81.2% (6.53 k to 11.8 k), parameters +81.2% (864 to 1.57 k)" in head
    assert [line.split(" | ")[0].removeprefix("| ") for line in head.splitlines() if "fc" in line] == [
        rf"fc\_{i}\_x" for i in (11, 10, 9, 8, 7)
    ]
    assert r"| fc\_11\_x | changed: output 4x8 became 4x20 | +816 | +108 | +6.9% of FLOPs |" in head  # 12 of 174
    assert "12 changed modules" in rest
    assert rest.count("- changed") == 12


def test_a_change_that_saves_work_for_parameters_is_neither_better_nor_worse():
    before = Profile(rooted(module("", "Net", linear("a", 4, 8, 16))))
    after = Profile(rooted(module("", "Net", linear("a", 1, 8, 32))))

    # 4 * (2 * 8 + 1) * 16 = 1088 FLOPs and 9 * 16 parameters; 1 * (2 * 8 + 1) * 32 and 9 * 32
    said = "Some costs grow and some fall: forward FLOPs -50.0% (1.09 k to 544), parameters +100.0% (144 to 288)."
    assert said in str(compare(before, after))
