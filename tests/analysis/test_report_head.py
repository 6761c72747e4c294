"""The head of the report page: the figures that a reader asks for first, and the verdict on ranks."""

from dataclasses import replace

from profiles import lenet, module, rooted, stack

from flopsight.analysis.report.page_head import job_verdict, tiles, verdict
from flopsight.results.job import Job
from flopsight.results.profile import Profile
from flopsight.results.records import Parameter
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import World


def shown(profile, **options):
    return {tile["label"]: (tile["value"], tile["note"]) for tile in tiles(profile, **options)}


def test_a_forward_has_its_parameters_work_and_time():
    found = shown(lenet())

    # 61,706 parameters and 426,516,480 MACs, as the older profilers print them; the median of 25.1, 25.7 and 26.9 ms
    assert found["Parameters"][0] == "61.7 k"
    assert found["Forward FLOPs"][1] == "427 M MACs"
    assert found["Time of a forward"] == ("25.7 ms", "median of 3 runs")
    assert "Backward FLOPs" not in found


def test_parameters_of_one_rank_are_told_from_those_of_the_whole_model():
    shard = Profile(replace(module("", "Net"), parameters=(Parameter(0, "weight", 250, whole_numel=1000),)))

    assert shown(shard)["Parameters"] == ("250", "on this rank, of 1.00 k")
    assert shown(replace(shard, part="it is a stage of a pipeline"))["Parameters"] == ("250", "on this rank")


def test_the_peak_names_the_two_kinds_that_hold_most():
    profile = replace(stack(), peak_bytes=1000, at_peak={"inputs": 50, "parameters": 600, "activations": 350})

    assert shown(profile)["Peak memory"] == ("1.00 kB", "parameters 60%, activations 35%")


def test_on_another_device_there_is_its_limit_and_no_time_of_ours():
    found = shown(stack(), on="h100-sxm")

    assert "on H100 SXM5 80GB" in found["Limit"][1]
    assert not any(label.startswith(("Time", "Throughput")) for label in found)


def ranks(seconds):
    return Job(
        {
            rank: replace(lenet(), timing=Timing(forward=Stat((one,))), world=World(size=len(seconds), rank=rank))
            for rank, one in enumerate(seconds)
        },
        size=len(seconds),
    )


def test_the_verdict_on_ranks_names_the_slowest():
    # 2 s over a mean of 1.25 s
    assert job_verdict(ranks([1.0, 1.0, 2.0, 1.0])) == "rank 2 of 4 is the slowest, 60% above the mean"


def test_ranks_that_are_alike_have_no_slowest():
    assert job_verdict(ranks([1.0, 1.0])) == "2 of 2 ranks, which take the same time"


def test_the_verdict_takes_a_module_and_its_limit_of_the_same_time():
    # forward 4 s, backward 8 s, update 8 s: the mlp's 3 and 7 s are half of the step
    mlp = module("mlp", "MLP", flops=6, latency=3.0, backward_latency=7.0)
    rest = module("rest", "Rest", flops=2, latency=1.0, backward_latency=1.0)
    timing = Timing(forward=Stat((4.0,)), backward=Stat((8.0,)), optimizer=Stat((8.0,)), step=Stat((20.0,)))
    p = Profile(rooted(module("", "Net", mlp, rest, latency=4.0, backward_latency=8.0)), timing=timing, trained=True)

    assert verdict(p) == "50% of the step in mlp"
    assert verdict(p, "h100-sxm") == "75% of the forward FLOPs in mlp", "the times are not that device's"
    assert verdict(p, "h100-sxm", {"": 10.0, "mlp": 3.0, "rest": 7.0}) == "70% of the limit in rest", (
        "as the icicle shows"
    )
    assert verdict(replace(p, trained=False)) == "75% of the forward in mlp"


def test_the_verdict_on_a_step_whose_modules_are_timed_by_forward_alone_says_so():
    mlp = module("mlp", "MLP", flops=1, latency=3.0)
    timing = Timing(forward=Stat((4.0,)), backward=Stat((8.0,)))
    p = Profile(rooted(module("", "Net", mlp, latency=4.0)), timing=timing, trained=True)

    # 3 s of the 12 that forward and backward take
    assert verdict(p) == "25% of the step in the forward of mlp"
    assert verdict(replace(p, timing=Timing(forward=Stat((4.0,))))) == "75% of the forward in mlp"


def test_the_verdict_names_what_blocks_are_made_of_also_beside_a_costly_embedding():
    # of 10 s the transformer takes 9, of which 2 are its embedding: its name says nothing, the mlp's 5 s do
    blocks = [module(str(at), "Block", module("mlp", "MLP", latency=2.5), latency=3.5) for at in range(2)]
    stacked = module("h", "ModuleList", *blocks, latency=7.0)
    transformer = module("transformer", "GPT", module("wte", "Embedding", latency=2.0), stacked, latency=9.0)
    p = Profile(rooted(module("", "Net", transformer, latency=10.0)), timing=Timing(forward=Stat((10.0,))))

    assert verdict(p) == "50% of the forward in mlp x 2"
