"""What the ranks of a job are together: one replica, however it is divided."""

import pytest
from distributed.ranks import MACS, PARAMS, halves, rank

from flopsight.analysis.compare import compare
from flopsight.errors import InputError
from flopsight.files import store
from flopsight.results.job import Job
from flopsight.results.world import Whole


def test_ranks_that_share_tensors_each_know_the_whole():
    job = Job({0: halves(0), 1: halves(1)}, 2)

    assert (job.whole.params, job.whole.macs, job.whole.flops) == (2 * PARAMS, 2 * MACS, 4 * MACS)
    assert job.missing == ()


def test_data_parallel_ranks_are_never_added_up():
    job = Job({n: rank(n, 4, data_parallel=4) for n in range(4)}, 4)

    assert (job.whole.params, job.whole.macs) == (PARAMS, MACS)


def test_the_stages_of_a_pipeline_are_added_up_and_stand_side_by_side():
    stages = {n: rank(n, pipeline=2, stage=n, model_parallel=2, part="one stage of 2") for n in (0, 1)}
    job = Job(stages, 2)

    assert stages[0].whole is None
    # two stages that share no tensor
    assert job.whole == Whole(2 * PARAMS, 2 * MACS, 4 * MACS, activation_bytes=0, active_params=2 * PARAMS)
    assert [child.name for child in job.model.root.children] == ["stage0", "stage1"]
    assert job.model.params == 2 * PARAMS
    assert job["stage1.up"].macs == MACS // 2
    assert job.model.whole == job.whole


def test_without_one_of_its_stages_a_pipeline_has_no_whole():
    job = Job({0: rank(0, pipeline=2, stage=0, model_parallel=2, part="one stage of 2")}, 2)

    assert job.whole is None
    assert job.model.whole is None


def test_experts_are_united_and_what_every_rank_has_counts_once():
    ranks = {n: rank(n, expert=2, expert_rank=n, part="own experts", names=("router", "expert")) for n in (0, 1)}
    job = Job(ranks, 2)

    half = PARAMS // 2  # the router on every rank, and an expert each
    assert job.whole.params == half + 2 * half
    # tokens are exchanged: what a rank's batch costs is done partly on the other
    assert job.whole.macs == MACS
    assert job.expert_load == {(0, "expert"): 8, (1, "expert"): 8}


def test_the_slowest_rank_and_how_uneven_the_ranks_are():
    job = Job({0: rank(0, seconds=1.0), 1: rank(1, seconds=3.0, macs=3 * MACS)}, 2)

    assert job.slowest == 1
    assert job.imbalance("time") == 3 / 2 - 1
    assert job.imbalance("flops") == 3 / 2 - 1
    assert job.imbalance("memory") is None


def test_a_figure_that_ranks_do_not_have_is_named():
    with pytest.raises(InputError, match=r"Ranks have no figure 'flop'\. Did you mean 'flops'\?"):
        Job({0: rank(0)}, 1).imbalance("flop")


def test_missing_ranks_are_named_with_their_reason():
    job = Job({0: rank(0, 3)}, 3, {2: "ValueError was raised: no"})

    assert job.missing == (1, 2)
    assert [str(caveat) for caveat in job.caveats] == [
        "2 of 3 ranks are missing: 1, 2.",
        "Rank 2: ValueError was raised: no",
    ]


def test_ranks_with_different_modules_are_named():
    job = Job({0: rank(0), 1: rank(1, names=("up", "side"))}, 2)

    assert [str(c) for c in job.caveats] == ["Ranks 0 and 1 have different modules: down is only in rank 0."]


def test_a_job_saves_loads_and_compares_as_a_profile_does(tmp_path):
    job = Job({0: halves(0), 2: rank(2, 3)}, 3, {1: "it has no profile."})

    loaded = store.load(job.save(tmp_path / "job.json"))

    assert loaded == job
    assert compare(job, loaded).same
    assert loaded.render("csv") == job.model.render("csv")


def test_ranks_with_one_tree_have_it_once_in_the_file():
    first = rank(0, 2)
    same = Job({n: Job({n: first}, 2).ranks[n] for n in (0, 1)}, 2)

    assert store.dumps(same).count('"Pair"') == 1
    loaded = store.loads(store.dumps(same))
    assert loaded.ranks[0].root is loaded.ranks[1].root


def test_a_job_shows_its_ranks_above_the_model():
    job = Job({0: rank(0, seconds=1.0, mesh={"dp": 2}), 1: rank(1, seconds=2.0)}, 2)

    text = str(job)

    assert text.startswith("Job of 2 ranks (dp 2), 2 arrived\n\nrank  params")
    assert "Slowest: rank 1, 2.00 s" in text
    assert "Whole model: 512 params, 4.10 k MACs" in text
    assert "Pair" in text


def test_a_thousand_ranks_are_not_a_thousand_lines():
    job = Job({n: rank(n, 1000, seconds=2.0 if n == 700 else 1.0) for n in range(1000)}, 1000)

    lines = job.render("tree").splitlines()

    assert "... and 984 more ranks" in lines
    assert any(line.split()[:1] == ["700"] for line in lines)
