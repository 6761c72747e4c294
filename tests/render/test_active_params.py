"""Parameters that one token passes stand beside the parameters of a mixture in every view, and nowhere else."""

import csv
import io
import json
from dataclasses import replace

import pytest
import torch
from expert_models import CHOICES, EXPERTS, HIDDEN, TOKENS, WIDTH, Loop
from torch import nn

import flopsight
from flopsight.analysis.budget import check
from flopsight.analysis.report.page_data import report
from flopsight.analysis.report.page_head import tiles
from flopsight.integrations.trackers import scalars
from flopsight.render.side_by_side import render as side_by_side
from flopsight.results.job import Job
from flopsight.results.rank_summary import summary_of
from flopsight.units import si

ROUTER = WIDTH * EXPERTS + EXPERTS
EXPERT = 2 * WIDTH * HIDDEN + WIDTH + HIDDEN
ACTIVE, ALL = ROUTER + CHOICES * EXPERT, ROUTER + EXPERTS * EXPERT
"""596 and 1,156."""
X = torch.randn(TOKENS, WIDTH)


@pytest.fixture(scope="module")
def mixture():
    torch.manual_seed(0)
    return flopsight.count(Loop(), (X,), on="meta")


@pytest.fixture(scope="module")
def plain():
    return flopsight.count(nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU()), (X,))


@pytest.mark.parametrize("format", ["tree", "table", "markdown", "latex"])
def test_text_has_a_column_of_its_own(format, mixture, plain):
    assert "active" in mixture.render(format)
    assert "active" not in plain.render(format)
    if format != "table":  # which shows what modules have by themselves
        assert si(ACTIVE) in mixture.render(format)


def test_the_summary_and_the_headline_say_it(mixture):
    shown = mixture.render("tree")

    assert f"{si(ALL)} parameters ({si(ACTIVE)} active)" in shown
    assert f"Active params                   {ACTIVE:,}  those that one token passes" in shown
    assert f"{si(ALL)} params ({si(ACTIVE)} active)" in repr(mixture)


def test_rows_of_a_module_add_up(mixture):
    page = csv.DictReader(io.StringIO(mixture.render("csv")))

    rows = {row["path"]: row for row in page}
    assert int(rows[""]["active_params"]) == ACTIVE
    assert int(rows["experts"]["active_params"]) == CHOICES * EXPERT
    assert int(rows["router"]["active_params"]) == int(rows["router"]["params"]) == ROUTER


def test_notebooks_and_the_page_have_it(mixture, plain):
    assert "<th>active</th>" in mixture._repr_mimebundle_()["text/html"]
    columns = {column["id"]: column for column in report(mixture)["modules"]["metrics"]}
    assert columns["active_params"]["total"][0] == ACTIVE
    assert sum(columns["active_params"]["own"]) == ACTIVE
    assert "active_params" not in {column["id"] for column in report(plain)["modules"]["metrics"]}
    assert tiles(mixture)[0]["note"].startswith(f"{si(ACTIVE)} active")
    assert "active" not in tiles(plain)[0]["note"]


def test_it_is_compared_and_budgeted(mixture, plain):
    more = flopsight.compare(plain, mixture)

    assert f"{si(ACTIVE)}" in str(more)
    assert not check(mixture, {"active_params": ACTIVE})
    assert check(mixture, {"active_params": ACTIVE - 1}) == [
        f"active_params is {si(ACTIVE)}, over the budget of {si(ACTIVE - 1)}."
    ]


def test_several_profiles_stand_side_by_side(mixture, plain):
    text = side_by_side([mixture, plain], ["a", "b"])

    assert "active params" in text.splitlines()[0]
    assert "active params" not in side_by_side([plain], ["b"])


def test_a_sweep_has_a_column_for_mixtures_only():
    made = flopsight.sweep(lambda batch: (Loop(), (X[:batch],)), {"batch": [1, 2]})
    other = flopsight.sweep(lambda batch: (nn.Linear(WIDTH, 2), (X[:batch],)), {"batch": [1, 2]})

    assert [row["active_params"] for row in made.rows] == [ACTIVE, ACTIVE]
    assert "active" in str(made)
    assert "active" not in str(other)


def test_ranks_of_a_job_keep_it(mixture):
    job = Job(
        {rank: replace(summary_of(mixture), world=replace(mixture.world, size=2, rank=rank)) for rank in (0, 1)}, 2
    )

    text = str(job)
    assert "active" in text
    assert job.whole.active_params == ACTIVE
    assert f"Whole model: {si(ALL)} params ({si(ACTIVE)} active)" in text


def test_older_files_load_without_it(plain, tmp_path):
    saved = json.loads(plain.save(tmp_path / "p.json").read_text())
    assert "active" not in json.dumps(saved)
    assert "read_bytes" not in json.dumps(saved)

    assert flopsight.load(tmp_path / "p.json").active_params == plain.params


def test_trackers_get_it_for_mixtures(mixture, plain):
    assert scalars(mixture)["flopsight/active_params"] == ACTIVE
    assert "flopsight/active_params" not in scalars(plain)
