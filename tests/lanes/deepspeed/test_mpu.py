"""Two ranks of a real engine with an `mpu`: half a Pair each, 16 -> 16 -> 16 on 8 rows, 2 x 2,048 MACs of 8,192."""

import pickle
import re
from pathlib import Path

import pytest
from lanes.deepspeed.engines import launch

HALF = 8 * 16 * 16


@pytest.fixture(scope="module", name="ranks")
def _ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpu")
    launch(2, Path(__file__).with_name("mpu_ranks.py"), str(folder))
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in (0, 1)]


@pytest.mark.parametrize("how", ["counted", "recorded"])
def test_the_ranks_of_an_mpu_share_a_model_and_no_rank_knows_the_whole(ranks, how):
    for rank, found in enumerate(ranks):
        profile = found[how]
        world = profile.world
        assert (world.size, world.rank, world.data_parallel, world.model_parallel) == (2, rank, 1, 2)
        assert (profile.params, profile.macs) == (512, 2 * HALF)
        assert profile.whole is None
        assert profile.part == "the model exchanges tensors in its own code (all_reduce), so its shards are hand-made"
        rows = [(row.op, row.calls, row.bytes) for row in profile.comm if row.phase == "forward"]
        assert rows == [("all_reduce", 1, 8 * 16 * 4)]


def test_the_summary_multiplies_by_the_mpus_size_as_its_labels_say(ranks):
    text = ranks[0]["text"]

    def fact(label):
        return re.search(rf"^{re.escape(label)}: +(.*?) *$", text, re.MULTILINE)[1]

    assert (fact("world size"), fact("data parallel size"), fact("model parallel size")) == ("2", "1", "2")
    assert fact("params per gpu") == "512"
    assert fact("params of model = params per GPU * mp_size") == "1.02 k"
    # two products and a ReLU of 8 x 16: 8,320; twice that
    assert fact("fwd flops of model = fwd flops per GPU * mp_size") == "16.64 K"


def test_a_training_step_of_a_model_that_cannot_be_copied_is_refused_with_the_way_out(ranks):
    for found in ranks:
        assert found["said"].startswith("A step of a DeepSpeed engine cannot be undone, and its model has no copy")
        assert found["said"].endswith("record a step of the loop, with flopsight.recording(engine).")
