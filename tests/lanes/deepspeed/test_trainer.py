"""transformers' Trainer over a DeepSpeed engine whose configuration has a `flops_profiler` block."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from lanes.deepspeed.engines import launch
from lanes.frameworks import tiny_llama

import flopsight

SCRIPT = Path(__file__).with_name("trainer_script.py")
BATCHES = 2


@cache
def train(stage, *block):
    """What was printed, the losses, and the profile where one was asked for."""
    with TemporaryDirectory() as folder:
        done = launch(1, SCRIPT, folder, str(stage), *block)
        losses = json.loads((Path(folder) / "losses.json").read_text())
        profile = flopsight.load(Path(folder) / "profile.json") if block else None
    return done.stdout, losses, profile


def block(**more):
    return json.dumps({"enabled": True, "profile_step": 2} | more)


@pytest.mark.parametrize("stage", [2, 3])
def test_the_step_of_the_block_is_counted_with_all_its_batches(stage):
    text, _, profile = train(stage, block())

    assert (profile.step, profile.macs) == (2, BATCHES * tiny_llama.macs())
    assert profile.params == profile.whole.params == tiny_llama.parameters()
    assert profile.batch_size == BATCHES * tiny_llama.BATCH
    assert (profile.world.size, profile.world.data_parallel, profile.world.sharded) == (1, 1, stage == 3)
    assert text.count("Profile Summary at step 2:") == 1


def test_every_module_costs_what_count_says():
    _, _, profile = train(2, block())

    expected = flopsight.count(tiny_llama.model(), kwargs=tiny_llama.batch())
    for node in expected.walk():
        if node.path not in ("", "<outside>"):  # the loss is divided by other numbers of tokens in a Trainer
            assert profile[node.path].forward == node.forward * BATCHES, node.path


def test_the_losses_are_those_without_a_profiler():
    assert len(train(2)[1]) == 4
    assert train(2, block())[1] == train(2)[1]


def test_the_blocks_own_keys_reach_us_through_the_trainer():
    text, _, profile = train(2, block(phases=["forward"]))

    assert profile.timing.backward is None
    assert "Left out by the settings: backward, optimizer." in text


def test_the_same_training_under_flopsight_run_needs_no_block(tmp_path):
    ours = ("-m", "flopsight", "run", "--step", "2", "-o", str(tmp_path / "profile.json"))

    launch(1, *ours, str(SCRIPT), str(tmp_path), "2")

    profile = flopsight.load(tmp_path / "profile.json")
    assert (profile.step, profile.macs) == (2, BATCHES * tiny_llama.macs())
    assert profile.params == tiny_llama.parameters()
    # AdamW's 7, its decay; in its step the engine also takes the norm of the gradients and scales them
    assert profile.optimizer.flops // profile.params == 8 + 1 + 1
    assert json.loads((tmp_path / "losses.json").read_text()) == train(2)[1]
