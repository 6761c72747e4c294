"""Two ranks of ZeRO 0 to 3 with the real engine: the work is the model's, in the phase in which it is done.

Two Pairs of 16 -> 32 -> 16 on 8 rows: forward 4 products of 4,096 MACs, two ReLUs of 256 elements, and the sum of
8 x 16 outputs that is the loss: 2 x 16,384 + 2 x 256 + 128 = 33,408 FLOPs.
"""

import pickle
import re
from pathlib import Path

import pytest
from lanes.deepspeed.engines import launch

FORWARD = 2 * 16_384 + 2 * 256 + 128
STAGES = range(4)


@pytest.fixture(scope="module", name="ranks")
def _ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zero")
    launch(2, Path(__file__).with_name("zero_ranks.py"), str(folder))
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in (0, 1)]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("how", ["recorded", "counted"])
def test_every_stage_shows_the_models_own_forward_and_backward(ranks, stage, how):
    for found in ranks:
        profile = found[stage][how]
        assert (profile.flops, profile.macs, profile.backward.macs) == (FORWARD, 16_384, 28_672)
        held = 1_024 if stage == 3 else 2_048
        assert (profile.params, profile.whole.params) == (held, 2_048)


@pytest.mark.parametrize("stage", STAGES)
def test_gradients_are_reduced_in_backward_and_weights_gathered_where_they_are_needed(ranks, stage):
    for found in ranks:
        rows = {(row.op, row.phase): row.bytes for row in found[stage]["recorded"].comm if row.bytes > 64}
        gradients = {("reduce_scatter", "backward"): 8_192} if stage == 3 else {("all_reduce", "backward"): 8_192}
        weights = {1: "optimizer", 2: "optimizer", 3: "forward"}.get(stage)
        assert rows == gradients | ({("all_gather", weights): 4_096} if weights else {})


def test_a_step_that_cannot_be_undone_is_not_timed_and_says_so(ranks):
    for found in ranks:
        profile = found[1]["counted"]
        assert profile.timing.step is None
        assert any("cannot be undone, so none was timed" in str(caveat) for caveat in profile.caveats)


def test_the_summary_of_an_engine_says_the_world_and_the_whole(ranks):
    text = ranks[0][3]["text"]

    def fact(label):
        return re.search(rf"^{label}: +(.*?) *$", text, re.MULTILINE)[1]

    assert (fact("world size"), fact("data parallel size"), fact("model parallel size")) == ("2", "2", "1")
    assert (fact("params per gpu"), fact("params of model")) == ("1.02 k", "2.05 k")
    assert fact("fwd flops of model = fwd flops per GPU \\* mp_size") == "33.41 K"
