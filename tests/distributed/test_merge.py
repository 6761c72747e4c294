"""Rank files become a job: by their first lines, with every tree that differs, and in one sentence where they cannot."""

import os

import pytest
from distributed.ranks import halves, rank
from hypothesis import given
from hypothesis import strategies as st

from flopsight.distributed.join import FEW, join, merge, packed, unpacked
from flopsight.errors import InputError
from flopsight.files import store
from flopsight.results.rank_summary import fingerprint, summary_of


def saved(folder, profiles):
    for profile in profiles:
        profile.save(folder / f"rank{profile.world.rank}.json")
    return folder


def test_a_folder_of_rank_files_is_a_job(tmp_path):
    job = merge(saved(tmp_path, [halves(0), halves(1)]))

    assert job.ranks == {0: halves(0), 1: halves(1)}
    assert (job.size, job.missing) == (2, ())


def test_the_summary_is_in_the_first_line_and_has_the_totals():
    profile = halves(1)
    line = store.dumps(profile).splitlines()[0]

    tree, summary = store.loads_summary(line)

    assert tree == fingerprint(profile.root)
    assert summary == summary_of(profile)
    assert (summary.params, summary.macs, summary.whole) == (profile.params, profile.macs, profile.whole)


def test_a_profile_of_one_process_has_no_summary():
    line = store.dumps(rank(0, 1)).splitlines()[0]

    assert store.loads_summary(line) is None


def test_trees_are_equal_whatever_time_they_took():
    assert fingerprint(rank(0, seconds=1.0).root) == fingerprint(rank(1, seconds=2.0).root)
    assert fingerprint(rank(0).root) != fingerprint(rank(0, macs=8).root)
    assert fingerprint(rank(0).root) != fingerprint(rank(0, params=8).root)


def test_of_many_ranks_those_with_equal_trees_share_one(tmp_path):
    size = FEW + 4
    odd = rank(3, size, macs=8, seconds=1.0)
    job = merge(saved(tmp_path, [odd, *(rank(n, size, seconds=n + 1.0) for n in range(size) if n != 3)]))

    alike = [profile.root.children for n, profile in job.ranks.items() if n not in (0, 3)]
    assert {tuple(map(id, layers)) for layers in alike} == {tuple(map(id, job.ranks[1].root.children))}
    assert job.ranks[0].root.children[0].latency == 1.0  # the first of them keeps its times
    assert job.ranks[1].root.children[0].latency is None  # which are not those of another rank
    assert job.ranks[3] == odd
    assert job.slowest == size - 1


@given(order=st.permutations(range(6)))
def test_the_order_in_which_ranks_arrive_does_not_matter(order):
    sources = [unpacked(n, packed(rank(n, 6, seconds=n + 1.0))) for n in order]

    assert join(sources) == join(sorted(sources, key=lambda source: source.name))


def test_a_damaged_file_is_named_and_the_others_are_kept(tmp_path):
    saved(tmp_path, [rank(0), rank(1)])
    (tmp_path / "rank1.json").write_text("{")

    job = merge(tmp_path)

    assert (list(job.ranks), job.missing) == ([0], (1,))
    assert "rank1.json is not a flopsight profile: it is not JSON." in job.problems[1]


def test_a_pipe_among_the_files_is_passed_over_and_not_waited_for(tmp_path):
    saved(tmp_path, [rank(0), rank(1)])
    (tmp_path / "rank1.json").unlink()
    os.mkfifo(tmp_path / "rank1.json")

    assert merge(tmp_path).missing == (1,)


def test_a_file_beside_those_of_all_ranks_is_named_and_left_out(tmp_path):
    saved(tmp_path, [rank(0), rank(1)])
    (tmp_path / "settings.json").write_text('{"x": 1}')

    job = merge(tmp_path)

    assert (sorted(job.ranks), job.missing) == ([0, 1], ())
    (said,) = map(str, job.caveats)
    assert "settings.json" in said
    assert said.endswith("It is left out.")
    assert store.loads(store.dumps(job), "job") == job


def test_a_file_of_an_older_schema_is_merged_too(tmp_path):
    saved(tmp_path, [rank(0), rank(1)])
    old = store.dumps(rank(1)).splitlines()[1]
    (tmp_path / "rank1.json").write_text('{"kind":"flopsight profile","schema":1,\n' + old)

    assert merge(tmp_path).ranks[1] == rank(1)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([rank(1, 4)], "are of different jobs: one of 2 ranks, one of 4"),
        ([rank(1, job="night")], r"are of different jobs \(unnamed and night\)"),
    ],
)
def test_files_of_different_jobs_are_refused(others, said, tmp_path):
    with pytest.raises(InputError, match=said):
        merge(saved(tmp_path, [rank(0), *others]))


def test_two_files_of_one_rank_are_refused(tmp_path):
    rank(0).save(tmp_path / "a.json")
    rank(0).save(tmp_path / "b.json")

    with pytest.raises(InputError, match=r"a\.json and .*b\.json both say that they are rank 0"):
        merge(tmp_path)


def test_a_folder_without_profiles_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"holds no \.json file"):
        merge(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        merge(tmp_path / "nowhere")
