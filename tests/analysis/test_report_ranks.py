"""The data of the report page on many ranks."""

from dataclasses import replace

from profiles import module, rooted

from flopsight.analysis.report.page_data import Stacks
from flopsight.analysis.report.page_ranks import collectives, ranks
from flopsight.results.comm import CommRow
from flopsight.results.job import Job
from flopsight.results.profile import Profile
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import World

GATHER = CommRow("all_gather", "forward", calls=2, bytes=64, wire_bytes=64, group_size=2, dim="dp")
SHAPES = CommRow("broadcast", "forward", calls=1, bytes=8, wire_bytes=8, group_size=2, setup=True)


def rank(number, flops, seconds):
    block = replace(module("block", "Block", flops=flops), comm=(GATHER,), setup_comm=(SHAPES,))
    timing = Timing(forward=Stat((seconds,)))
    return Profile(rooted(module("", "Net", block)), timing=timing, world=World(size=3, rank=number))


def test_ranks_stand_side_by_side_with_what_sets_them_apart():
    job = Job({0: rank(0, 10, 1.0), 1: rank(1, 20, 3.0)}, size=3)

    page = ranks(job)

    titles = [column["label"] for column in page["columns"]]
    assert [row[titles.index("forward FLOPs")] for row in page["rows"]] == [10, 20]
    # FLOPs 20 over a mean of 15, times 3 over a mean of 2
    assert "forward FLOPs 33.3%" in page["about"]
    assert "time of a step 50.0%" in page["about"]
    assert "Rank 1 has the longest step" in page["about"]
    assert "Missing: 2." in page["about"]


def test_a_collective_leads_to_its_module_and_names_its_mesh_dimension():
    profile = rank(0, 10, 1.0)

    page = collectives(list(profile.walk()), Stacks(profile.root))

    (gather, shapes) = page["rows"]
    assert gather[:5] == ["block", "all_gather", "forward", "dp", 2]
    assert gather[6:8] == [64, 64]
    assert "outside the totals" in shapes[-1]
    assert page["modules"] == ["block", "block"]


def test_a_model_that_does_not_communicate_has_no_collectives():
    root = rooted(module("", "Net"))
    assert collectives(list(root.walk()), Stacks(root)) is None
