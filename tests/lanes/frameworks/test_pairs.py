"""Callbacks in two processes that train together over gloo: each profiles itself, and none waits for another."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from lanes.frameworks.arithmetic import llama_macs, llama_params, resnet_macs, resnet_params
from script.running import torchrun

from flopsight.files.store import loads

SCRIPT = Path(__file__).parent / "scripts" / "pair.py"

# rank 0 has 16 tokens, or 8 pixels a side; rank 1 has 12 and 6
EXPECTED = {
    "transformers": (llama_params(), [llama_macs(16), llama_macs(12)], 4),
    "accelerate": (llama_params(), [2 * llama_macs(16), 2 * llama_macs(12)], 8),
    "lightning": (resnet_params(), [resnet_macs(8), resnet_macs(6)], 4),
}


@cache
def trained(framework, *words):
    with TemporaryDirectory() as folder:
        done = torchrun(Path(folder), SCRIPT, framework, *words)
    assert done.code == 0, done.err[-3000:]
    return done


@pytest.mark.parametrize("framework", EXPECTED)
def test_every_rank_profiles_its_own_batches(framework):
    params, macs, samples = EXPECTED[framework]

    for rank in (0, 1):
        profile = loads(trained(framework).files[f"rank{rank}.json"])
        model = profile.nodes.get("network", profile.root)
        assert (profile.step, profile.params, profile.whole.params) == (1, params, params)
        assert (profile.macs, model.macs) == (macs[rank], macs[rank])
        assert profile.batch_size == samples
        first = profile["network.stem"].macs if framework == "lightning" else 0
        assert model.backward.macs == 2 * model.macs - first, "two products each; the first layer hands no gradient on"
        assert profile.optimizer.flops // params >= 7


@pytest.mark.parametrize("framework", EXPECTED)
def test_a_profile_says_which_of_the_processes_it_is_from(framework):
    worlds = [loads(trained(framework).files[f"rank{rank}.json"]).world for rank in (0, 1)]

    assert [(world.size, world.rank) for world in worlds] == [(2, 0), (2, 1)]
    assert [(world.data_parallel, world.model_parallel, world.sharded) for world in worlds] == [(2, 1, False)] * 2


@pytest.mark.parametrize("framework", EXPECTED)
def test_without_a_callback_every_rank_profiles_itself_under_flopsight_run(framework, tmp_path):
    params, macs, _ = EXPECTED[framework]

    done = torchrun(tmp_path, "-m", "flopsight", "run", "--step", "2", "-o", "p.json", SCRIPT, framework, "--plain")

    assert done.code == 0, done.err[-3000:]
    assert len(done.said) == 1
    for rank in (0, 1):
        profile = loads(done.files[f"p-rank{rank}.json"])
        assert (profile.step, profile.params, profile.macs) == (2, params, macs[rank])
        assert (profile.world.size, profile.world.rank, profile.world.data_parallel) == (2, rank, 2)


@pytest.mark.parametrize("framework", EXPECTED)
def test_rank_0_alone_writes_the_file_that_the_callback_was_given(framework):
    files = trained(framework).files

    assert files["profile.json"] == files["rank0.json"]


@pytest.mark.parametrize("framework", EXPECTED)
def test_the_losses_of_both_ranks_are_the_same_with_and_without_us(framework):
    ours, plain = (
        sorted(line for line in done.out.splitlines() if "loss" in line and line.startswith("rank"))
        for done in (trained(framework), trained(framework, "--plain"))
    )

    assert len(plain) >= 6
    assert ours == plain
