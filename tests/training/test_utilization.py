"""MFU and HFU of steps that really ran, against a peak that the user states."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import flopsight

WORDS, WIDE, BATCH, LENGTH = 50, 16, 2, 8
TOKENS = BATCH * LENGTH
PEAK = 1e12


class Model(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(WORDS, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WORDS)
        self.checkpointed = checkpointed

    def forward(self, input_ids):
        hidden = self.words(input_ids)
        if self.checkpointed:
            with set_checkpoint_early_stop(False):
                hidden = checkpoint(self.inner, hidden, use_reentrant=False)
        else:
            hidden = self.inner(hidden)
        return self.head(hidden)


@pytest.fixture(autouse=True)
def _stated(monkeypatch):
    monkeypatch.setenv("FLOPSIGHT_PEAK_FLOPS", f"float32={PEAK}")


INNER, HEAD = TOKENS * WIDE * WIDE, TOKENS * WIDE * WORDS
MODEL_FLOPS = 2 * 3 * (INNER + HEAD)
"""Two a MAC; forward, and both gradients backward. The update and all pointwise work stay out."""


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_measured_step_is_held_against_the_stated_peak(checkpointed):
    model = Model(checkpointed)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64)

    profile = flopsight.profile(model, (ids,), train=True, optimizer=optimizer, warmup=0, repeats=2)

    seconds = profile.timing.step.median
    again = 2 * INNER if checkpointed else 0
    assert profile.mfu == pytest.approx(MODEL_FLOPS / seconds / PEAK)
    assert profile.hfu == pytest.approx((MODEL_FLOPS + again) / seconds / PEAK)
    assert profile.tokens_per_second == pytest.approx(TOKENS / seconds)
    assert profile.throughput == pytest.approx(BATCH / seconds)
    text = profile.render("tree", full=True)
    assert "MFU " in text
    assert "HFU " in text
    assert "of 1.00 TFLOP/s in float32" in text
    assert f"{MODEL_FLOPS // TOKENS:,}" in text


def test_a_window_of_steps_is_held_against_whole_iterations():
    model = Model(checkpointed=False)
    optimizer = torch.optim.AdamW(model.parameters())
    with flopsight.step_profiler(model, optimizer, steps=range(1, 4)) as prof:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.zeros(BATCH, LENGTH, dtype=torch.int64)).sum().backward()
            optimizer.step()
            prof.step()

    profile = prof.profile
    assert profile.mfu == pytest.approx(MODEL_FLOPS / profile.timing.iteration.median / PEAK)
    assert profile.tokens == TOKENS


def test_without_a_peak_the_page_says_how_to_state_one(monkeypatch):
    monkeypatch.delenv("FLOPSIGHT_PEAK_FLOPS")
    model = Model(checkpointed=False)

    profile = flopsight.profile(model, (torch.zeros(BATCH, LENGTH, dtype=torch.int64),), train=True, repeats=1)

    assert profile.mfu is None
    assert "MFU is not known: the peak of" in str(profile)
    assert 'State it: FLOPSIGHT_PEAK_FLOPS="float32=..."' in " ".join(
        str(profile).split()
    )  # where a line ends, the CPU's name decides
