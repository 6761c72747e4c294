"""The same runs under DeepSpeed's own profiler: what docs/deepspeed.md prints and says about it."""

import re
from pathlib import Path

import pytest
from lanes.deepspeed import net
from lanes.deepspeed.engines import run

PAGE = (Path(__file__).parents[3] / "docs" / "deepspeed.md").read_text()
MEASURED = re.compile(r"\d[\d.]* (?:[KMGT]?FLOPS|[munG]?s)\b|[\d.]+% latency|(?<=samples/second: )\s+[\d.]+")


@pytest.fixture(scope="module", name="runs")
def _runs(tmp_path_factory):
    """By whose profiler it was; two processes each."""
    return {
        whose: run(
            tmp_path_factory.mktemp(whose),
            2,
            plain={"stage": 0, "profiler": whose},
            accumulated={"stage": 0, "batches": 2, "profiler": whose},
            split={"stage": 3, "profiler": whose},
        )
        for whose in ("theirs", "ours")
    }


def printed(title):
    """The lines of a block of the page, what a clock said taken out."""
    (block,) = re.findall(rf"```text\n(-+ {title} -+\n.*?)```", PAGE, re.DOTALL)
    return [plain(line) for line in block.splitlines()]


def plain(line):
    return MEASURED.sub("*", line.rstrip())


@pytest.mark.parametrize(("whose", "title"), [("theirs", "DeepSpeed Flops Profiler"), ("ours", "Flops Profiler")])
def test_the_page_shows_what_is_printed(runs, whose, title):
    shown, lines = printed(title), [plain(line) for line in runs[whose]["split"].pages[0].splitlines()]

    assert shown.count("...") == 3
    for line in shown:  # "..." stands for lines that are left out
        if line != "...":
            assert line in lines
            del lines[: lines.index(line) + 1]
    assert not lines


def test_without_zero_the_macs_are_the_same_and_the_flops_lack_what_the_model_does_itself(runs):
    theirs, ours = runs["theirs"]["plain"], runs["ours"]["plain"]

    assert theirs.fact("fwd MACs per GPU") == ours.fact("fwd MACs per GPU") == f"{round(net.MACS / 1000, 2)} KMACs"
    assert theirs.fact("fwd flops per GPU") == f"{round(2 * net.MACS / 1000, 2)} K"
    assert ours.fact("fwd flops per GPU") == f"{round(net.FLOPS / 1000, 2)} K"


def test_they_print_after_every_batch_and_we_when_the_step_is_whole(runs):
    theirs, ours = runs["theirs"]["accumulated"], runs["ours"]["accumulated"]

    assert len(theirs.pages) == 2
    assert [page.splitlines()[1] for page in theirs.pages] == [f"Profile Summary at step {step}:" for step in (1, 2)]
    assert {theirs.fact("fwd MACs per GPU", page) for page in (0, 1)} == {f"{round(net.MACS / 1000, 2)} KMACs"}
    assert len(ours.pages) == 1
    assert ours.fact("fwd MACs per GPU") == f"{round(2 * net.MACS / 1000, 2)} KMACs"


def test_the_time_of_the_outermost_module_is_theirs_since_1970(runs):
    assert re.search(r"Net\(\n.* 1\.\d+ Gs = 100% latency, 0 FLOPS", runs["theirs"]["plain"].pages[0])
    assert runs["ours"]["plain"].profile.root.latency < 60


def test_losses_are_the_same_under_either_profiler(runs):
    for name in ("plain", "accumulated", "split"):
        theirs, ours = runs["theirs"][name], runs["ours"][name]
        assert [rank["losses"] for rank in theirs.ranks] == [rank["losses"] for rank in ours.ranks]
