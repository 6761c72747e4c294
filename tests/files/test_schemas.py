"""One saved file per kind and schema number, written by the release that had it: all of them have to load, for good."""

from pathlib import Path

import pytest

import flopsight
from flopsight.files import run_file, store

FOLDER = Path(__file__).parents[1] / "data" / "schemas"
CONV, LINEAR = 4 * 6 * 28 * 28 * 25, 4 * 6 * 28 * 28 * 10
"""MACs of the forward of the profiles: Conv2d(1, 6, 5) on 4x1x32x32, then Linear(6*28*28, 10)."""
FIRST = {"profile": 1, "run": 1}
"""The first schema that a kind was saved with; the others came with schema 2."""


def kinds():
    return {part: store.SCHEMA for part, _, _ in store._CODINGS.values()} | {"run": run_file.SCHEMA}


def opened(name):
    return flopsight.load(FOLDER / name)


def test_every_schema_of_every_kind_has_its_file():
    needed = [f"{kind}-{number}" for kind, last in kinds().items() for number in range(FIRST.get(kind, 2), last + 1)]

    assert sorted(needed) == sorted(path.stem for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", ["profile-1.json", "profile-2.json"])
def test_a_profile_of_every_schema_has_its_figures(name):
    profile = opened(name)

    assert profile.macs == CONV + LINEAR
    assert profile.backward.macs == CONV + 2 * LINEAR  # the inputs of the first layer need no gradient
    assert profile.params == 6 * 25 + 6 + 6 * 28 * 28 * 10 + 10
    assert profile["0"].macs == CONV
    assert profile.latency > 0
    assert "Conv2d" in str(profile)


def test_a_job_has_its_ranks():
    job = opened("job-2.json")

    assert sorted(job.ranks) == [0, 1]
    assert job.model.whole.params == 156 + 2416 + 48120 + 10164 + 850  # LeNet-5


def test_a_sweep_has_its_points():
    sweep = opened("sweep-2.json")

    assert [row["macs"] for row in sweep.rows] == [batch * width * width for width in (8, 16) for batch in (1, 4)]


def test_a_plan_has_its_options():
    plan = opened("plan-2.json")

    assert plan.best.micro_batch * plan.best.accumulate * 2 == 4
    assert plan.best.fits


def test_a_generation_has_its_cache():
    generation = opened("generation-2.json")

    assert generation.cache_bytes == 2 * (16 + 4) * 2 * 2 * 16 * 4  # sequences, tokens, keys and values, heads, float32
    assert generation.prefill.macs > generation.first.macs


def test_a_run_has_its_steps():
    run = opened("run-1.jsonl")

    assert [(part.steps, part.total_model_flops) for part in run.intervals] == [(5, 5 * 4 * 32 * 64 * 10)] * 2


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_every_file_is_drawn(path):
    assert str(flopsight.load(path)).strip()
