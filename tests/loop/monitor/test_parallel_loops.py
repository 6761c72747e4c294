"""Data parallel, sharded, compiled and tensor parallel loops: each rank's FLOPs by arithmetic, training as without us."""

import pytest
from distributed.nets import INNER, WIDTH
from distributed.processes import checked, run_ranks
from loop.monitor.parallel_loops import ROWS, STEPS
from releases import with_fsdp2

SHARDED = (("fsdp2", 1), ("compiled_fsdp2", 1), ("titan", 1), ("tensor_parallel", 2))
"""Loops with FSDP2, and the ranks that share a product."""
PRODUCTS = 4 + 7
"""Of the two Pairs of the net: four in forward, and in backward each has two but the first, whose input has no gradient."""
LOOPS = [("ddp", 1), *(pytest.param(*loop, marks=with_fsdp2) for loop in SHARDED)]


def step_flops(step, ways=1):
    return 2 * PRODUCTS * WIDTH * INNER * sum(rows + step % 2 for rows in ROWS) // ways


@pytest.fixture(scope="module", name="ranks")
def _ranks():
    return run_ranks("loop.monitor.parallel_loops", 2)


@pytest.mark.parametrize(("loop", "ways"), LOOPS)
def test_every_rank_has_the_flops_of_its_own_work_and_trains_as_without_us(ranks, loop, ways):
    for found in checked(ranks, loop):
        assert found["watched"] == found["plain"]
        assert not found["left"]
        flops = [record["flopsight/model_flops"] for record in found["seen"]]
        assert flops == [step_flops(step, ways) for step in range(STEPS)], found["run"].notes


@pytest.mark.parametrize(("loop", "ways"), LOOPS[1::3])
def test_mfu_is_a_ranks_own_work_over_its_own_peak(ranks, loop, ways):
    for found in checked(ranks, loop):
        for step, record in enumerate(found["seen"]):
            if "flopsight/step_seconds" in record:  # a step that was counted while it ran has no time
                at_peak = record["flopsight/mfu"] * record["flopsight/step_seconds"] * 1e12
                assert at_peak == pytest.approx(step_flops(step, ways))


def test_a_validation_of_a_wrapped_model_is_in_no_step(ranks):
    for found in checked(ranks, "ddp"):
        assert found["run"].whole.validations == 2
