"""Several ranks: each counts its own work, and the job's figures come through its store without a collective."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loop.monitor import four_ranks
from script.running import free_port, start_warm

import flopsight
from flopsight.loop.monitor.rank_exchange import job_figures
from flopsight.results.world import World

HERE = Path(__file__).parent


def run_ranks(folder, ending):
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(HERE / "ranks.py"), str(folder), ending]
    ranks = [subprocess.Popen(words, env=os.environ | shared | {"RANK": str(rank)}) for rank in range(2)]
    assert [rank.wait(600) for rank in ranks] == [0, 0]


@pytest.mark.parametrize("ending", ["ends", "dies"])
def test_each_rank_has_its_own_flops_and_a_dead_rank_holds_nobody_up(ending, tmp_path):
    run_ranks(tmp_path, ending)

    for rank in (0, 1) if ending == "ends" else (0,):
        seen = json.loads((tmp_path / f"rank{rank}.json").read_text())
        if ending == "ends":
            slow = seen.pop()["slow"]
            assert any("; rank 1: " in why for why in slow) == (rank == 0)  # which reads what the others left
        assert len(seen) == (40 if ending == "ends" else 20)
        assert {record["flopsight/model_flops"] for record in seen} == {2 * 2 * (4 + rank) * 8 * 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="its ranks are forked")
def test_a_killed_rank_and_a_slow_one_end_a_job_as_without_us_and_what_was_measured_is_saved(tmp_path):
    """The killed rank breaks the connections of the others, which fail in the backward of that step."""
    plain, watched = (start_warm([HERE / "four_ranks.py", way, free_port()], tmp_path) for way in ("plain", "watched"))

    assert sorted(watched.out.splitlines()) == sorted(plain.out.splitlines())
    assert "codes 1 1 1 -9" in watched.out
    assert watched.err.count("[rank") > 0 and "flopsight: " not in watched.err
    for rank in range(four_ranks.RANKS):
        run = flopsight.load(tmp_path / f"rank{rank}.jsonl")
        assert run.steps == four_ranks.AT if rank != four_ranks.KILLED else 0 < run.steps <= four_ranks.AT
        assert {interval.model_flops for interval in run.intervals} == {2 * 2 * (4 + rank) * 8 * 2}


def test_figures_of_a_job_are_means_sums_and_the_slowest():
    ranks = {
        0: {"mfu": 0.5, "hfu": 0.6, "tokens": 100.0, "flops": 4.0, "own": 1.0, "at": 10.0},
        1: {"mfu": 0.3, "hfu": 0.4, "tokens": 60.0, "flops": 4.0, "own": 4.0, "at": 11.0},
        2: {"mfu": 0.1, "hfu": 0.1, "tokens": 20.0, "flops": 2.0, "own": 1.0, "at": 11.0},
        3: {"mfu": 0.9, "hfu": 0.9, "tokens": 999.0, "flops": 4.0, "own": 9.0, "at": -100.0},  # left long ago
    }

    found = job_figures(ranks, World(size=4, model_parallel=2))

    assert found["flopsight/job/ranks"] == 3
    assert found["flopsight/job/model_flops"] == 10.0  # of those that are there
    assert found["flopsight/job/mfu"] == pytest.approx(0.3)
    assert found["flopsight/job/tokens_per_second"] == 90  # two ranks share the tokens of one model
    assert found["flopsight/job/slowest_rank"] == 1
    assert found["flopsight/job/slowest_excess_seconds"] == 3.0


def test_a_figure_that_a_rank_does_not_know_is_not_known_of_the_job():
    ranks = {
        rank: {"mfu": None, "hfu": None, "tokens": None, "flops": None, "own": None, "at": 0.0} for rank in range(2)
    }

    assert job_figures(ranks, World(size=2)) == {"flopsight/job/ranks": 2}
