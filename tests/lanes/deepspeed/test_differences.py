"""Where DeepSpeed's profiler and ours differ, what each says and which is right; docs/deepspeed.md lists the same."""

import re
from pathlib import Path

import pytest
import torch
from deepspeed.profiling.flops_profiler import FlopsProfiler as DeepSpeedsProfiler
from deepspeed.profiling.flops_profiler import get_model_profile as deepspeeds_profile
from lanes.deepspeed.differences import CASES, RAISES
from torch import nn
from torch.nn import functional as F

import flopsight

PAGE = (Path(__file__).parents[3] / "docs" / "deepspeed.md").read_text()
QUIET = {"print_profile": False, "as_string": False}


def numbers(row):
    """The numbers in the row of docs/deepspeed.md that begins so, after its first cell."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row} |")]
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", line.removeprefix(f"| {row} |"))]


@pytest.fixture
def patches_undone():
    """What DeepSpeed's profiler leaves patched when a model raises."""
    before = {home: dict(vars(home)) for home in (torch, F)}
    methods = {
        name: getattr(torch.Tensor, name) for name in ("matmul", "__matmul__", "mm", "bmm", "addmm", "mul", "add")
    }
    yield
    for home, names in before.items():
        for name, value in names.items():
            if vars(home)[name] is not value:
                setattr(home, name, value)
    for name, value in methods.items():
        setattr(torch.Tensor, name, value)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
def test_both_answers_are_those_of_the_page(case):
    with torch.no_grad():
        their_flops, their_macs, _ = deepspeeds_profile(case.model, args=list(case.args), **QUIET)
    flops, macs, _ = flopsight.get_model_profile(case.model, args=list(case.args), **QUIET)

    assert (flops if case.pointwise else macs) == case.ours
    assert (their_flops if case.pointwise else their_macs) == case.theirs
    assert numbers(case.row) == [case.theirs, case.ours]


@pytest.mark.parametrize(("row", "model", "args", "macs"), RAISES, ids=[row for row, *_ in RAISES])
def test_a_model_that_runs_runs_under_our_profiler(row, model, args, macs, patches_undone):
    assert flopsight.get_model_profile(model, args=list(args), **QUIET)[1] == macs
    assert numbers(row) == [macs]

    with pytest.raises((AssertionError, TypeError)):
        deepspeeds_profile(model, args=list(args), **QUIET)


def test_after_a_model_that_raised_our_numbers_are_those_of_a_fresh_process(patches_undone):
    class Failing(nn.Linear):
        def forward(self, x):
            super().forward(x)
            raise ValueError("no more")

    def tried(profile):
        with pytest.raises(ValueError, match="no more"):
            profile(Failing(8, 2), args=[torch.ones(4, 8)], warm_up=0, **QUIET)
        return profile(nn.Linear(8, 2), args=[torch.ones(4, 8)], **QUIET)[1]

    ours, theirs = tried(flopsight.get_model_profile), tried(deepspeeds_profile)

    assert (ours, theirs) == (4 * 8 * 2, 2 * 4 * 8 * 2)
    assert numbers("after a model that raised") == [theirs, ours]


def test_a_profiler_that_is_started_twice_counts_once(patches_undone):
    def started_twice(kind):
        model = nn.Linear(8, 2)
        profiler = kind(model)
        profiler.start_profile()
        profiler.start_profile()
        with torch.no_grad():
            model(torch.ones(4, 8))
        profiler.stop_profile()
        return profiler.get_total_macs()

    ours, theirs = started_twice(flopsight.FlopsProfiler), started_twice(DeepSpeedsProfiler)

    assert (ours, theirs) == (4 * 8 * 2, 2 * 4 * 8 * 2)
    assert numbers("a profiler started twice") == [theirs, ours]
