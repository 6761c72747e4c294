"""Other processes of a script: data workers and children are left alone, ranks profile themselves."""

import re
from pathlib import Path

from releases import with_fsdp2
from script.running import SCRIPTS, plain, profiled, torchrun

from flopsight.files.store import loads
from flopsight.results.world import World

WORKERS = ("--workers", "2", "--samples", "20", "--epochs", "3")


def lines(done):
    """What several processes printed, in no order."""
    return sorted(done.out.splitlines())


def losses(done):
    """What ranks print of their losses, each in one piece; gloo says in pieces who is connected, on the same lines."""
    return sorted(re.findall(r"rank \d step \d loss [\d.e+-]+\n", done.out))


def test_data_workers_neither_profile_nor_print():
    done = profiled("vision.py", *WORKERS)

    assert done.code == 0
    assert done.out == plain("vision.py", *WORKERS).out
    assert len(done.said) == 1
    assert done.profile.macs == profiled("vision.py").profile.macs


def test_data_workers_that_start_within_a_counted_step_are_left_alone():
    """Every epoch forks new workers: of the window's steps, step 5 begins with that."""
    done = profiled("vision.py", *WORKERS, flags=("--steps", "5-6"))

    assert done.out == plain("vision.py", *WORKERS).out
    assert len(done.said) == 1


def test_a_fork_in_the_middle_of_the_counted_step_goes_on_without_us():
    done = profiled("forks.py")

    assert lines(done) == lines(plain("forks.py"))
    assert "child 0 " in done.out  # no dispatch mode is on there
    assert len(done.said) == 1
    assert done.profile.macs == 3 * 4 * 2


def test_what_a_script_lets_go_is_gone_at_once():
    assert profiled("releases.py").out == plain("releases.py").out


def test_spawned_processes_are_left_alone_and_that_is_said():
    done = profiled("spawned.py")

    assert done.out == plain("spawned.py").out
    assert not done.files
    assert len(done.said) == 1
    assert "in processes that the script starts is not seen" in done.said[0]


def test_every_rank_profiles_itself_and_rank_0_prints(tmp_path):
    script = SCRIPTS / "distributed.py"

    by_itself = torchrun(tmp_path / "plain", script)
    done = torchrun(tmp_path / "ours", "-m", "flopsight", "run", script)

    assert done.code == by_itself.code == 0, done.err
    assert losses(done) == losses(by_itself)
    assert len(losses(done)) == 2 * 8
    *ranks, job = [f"flopsight-distributed-step5-{whose}.json" for whose in ("rank0", "rank1", "job")]
    assert list(done.files) == sorted([*ranks, job])
    assert [Path(line).name for line in done.said] == [job]
    assert "Job of 2 ranks, 2 arrived" in done.err
    together = loads(done.files.pop(job))
    assert (sorted(together.ranks), together.missing) == ([0, 1], ())
    assert done.err.count("Forward MACs") == 1
    for rank, text in enumerate(done.files.values()):
        seen = loads(text)
        assert (seen.world.rank, seen.world.size, seen.world.data_parallel) == (rank, 2, 2)
        assert seen.macs == 3 * (6 * 10 + 10 * 2)
        assert seen["module.0"].backward.macs == 3 * 6 * 10


@with_fsdp2
def test_ranks_that_share_the_parameters_show_their_part_and_the_whole(tmp_path):
    script = SCRIPTS / "sharded.py"

    by_itself = torchrun(tmp_path / "plain", script)
    done = torchrun(tmp_path / "ours", "-m", "flopsight", "run", "--step", "3", script)

    assert done.code == by_itself.code == 0, done.err
    assert losses(done) == losses(by_itself)
    assert len(losses(done)) == 2 * 9
    params = 8 * 16 + 16 + 16 * 4 + 4
    for rank, text in enumerate(text for name, text in done.files.items() if "rank" in name):
        seen = loads(text)
        assert seen.world == World(size=2, rank=rank, data_parallel=2, sharded=True)
        assert (seen.params, seen.whole.params) == (params // 2, params)
        assert seen.macs == 3 * (8 * 16 + 16 * 4)
        assert seen.backward.macs == 3 * (8 * 16 + 2 * 16 * 4), "the first layer hands no gradient on"
        assert seen.optimizer.flops // seen.params == 8  # AdamW with decay, on the part that is here
        assert seen.coverage.complete, seen.coverage.unknown
