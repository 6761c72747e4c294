"""Real DeepSpeed engines with `"monitor": true` in their `flops_profiler` block: every step, trained as without us."""

import pytest
from lanes.deepspeed import net
from lanes.deepspeed.engines import run

STEPS, EVERY = 4, 2
CASES = {"stage0": {"stage": 0}, "accumulated": {"stage": 2, "batches": 3}, "stage3": {"stage": 3}}


def step_flops(batches):
    """Forward, a gradient for every weight, and one that goes through the second product."""
    up, down = net.BATCH * net.WIDTH * net.INNER, net.BATCH * net.INNER * net.CLASSES
    return 2 * batches * ((up + down) + (up + down) + down)


@pytest.fixture(scope="module", name="engines", params=[1, 2], ids=["alone", "pair"])
def _engines(request, tmp_path_factory):
    cases = {
        f"{name}_{profiler}": case | {"profiler": profiler}
        for profiler in ("none", "monitor")
        for name, case in CASES.items()
    }
    # ZeRO-3 comes last because it replaces functions of torch for good
    return run(
        tmp_path_factory.mktemp("engines"),
        request.param,
        **dict(sorted(cases.items(), key=lambda case: "stage3" in case[0])),
    )


@pytest.mark.parametrize("name", CASES)
def test_every_step_of_an_engine_has_its_flops_and_the_engine_trains_as_without_us(engines, name):
    for plain, watched in zip(engines[f"{name}_none"].ranks, engines[f"{name}_monitor"].ranks, strict=True):
        flops = step_flops(CASES[name].get("batches", 1))
        assert watched["intervals"] == [[EVERY, flops]] * (STEPS // EVERY)
        assert watched["losses"] == plain["losses"]
        assert watched["hooks"] == plain["hooks"]
        assert not watched["patched"]
