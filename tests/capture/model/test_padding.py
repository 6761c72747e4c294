"""Padding is read from what a model is given: its masks, else the ids that stand for no token."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.model.padding import padding_of
from flopsight.results.records import Padding

KEPT = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
THREE_OF_EIGHT = Padding(positions=2 * 4, padded=3, pairs=2 * 4**2, real_pairs=4**2 + 1)


class Model(nn.Module):
    """Takes everything and looks ids up in a table."""

    def __init__(self, padding_idx=None, pad_token_id=None):
        super().__init__()
        self.table = nn.Embedding(10, 4, padding_idx=padding_idx)
        self.config = SimpleNamespace(pad_token_id=pad_token_id)

    def forward(self, input_ids, attention_mask=None, src_key_padding_mask=None):
        return self.table(input_ids)


IDS = torch.tensor([[5, 6, 7, 8], [5, 0, 0, 0]])


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((IDS,), {"attention_mask": KEPT}),
        ((IDS, KEPT.bool()), {}),
        ((IDS,), {"attention_mask": KEPT.float()}),
        ((IDS,), {"src_key_padding_mask": KEPT == 0}),
        ((IDS,), {"src_key_padding_mask": torch.zeros(2, 4).masked_fill(KEPT == 0, float("-inf"))}),
    ],
    ids=["integers", "by position", "floats", "true for padding", "minus infinity"],
)
def test_a_mask_says_which_positions_hold_a_token(args, kwargs):
    assert padding_of(Model(), args, kwargs) == THREE_OF_EIGHT


def test_without_a_mask_the_padding_token_says_so():
    assert padding_of(Model(pad_token_id=0), (IDS,), {}) == THREE_OF_EIGHT
    assert padding_of(Model(padding_idx=0), (IDS,), {}) == THREE_OF_EIGHT


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((IDS,), {}),
        ((IDS,), {"attention_mask": torch.zeros(2, 4).masked_fill(KEPT == 0, -1e9)}),
        ((IDS,), {"attention_mask": KEPT.bool()[:, None, None, :]}),
        ((IDS.to("meta"),), {"attention_mask": KEPT.to("meta")}),
    ],
    ids=["no token known", "added to the scores", "of four dimensions", "no values"],
)
def test_what_the_inputs_do_not_say_is_not_guessed(args, kwargs):
    assert padding_of(Model(), args, kwargs) is None


def test_two_masks_are_two_batches():
    class Both(nn.Module):
        def forward(self, attention_mask, decoder_attention_mask):
            return attention_mask

    assert padding_of(Both(), (KEPT, KEPT), {}) == THREE_OF_EIGHT + THREE_OF_EIGHT


def test_a_profile_keeps_it(tmp_path):
    profile = flopsight.profile(Model(), (IDS,), {"attention_mask": KEPT}, latency=False)
    profile.save(tmp_path / "p.json")

    assert profile.padding == flopsight.load(tmp_path / "p.json").padding == THREE_OF_EIGHT
    assert flopsight.profile(Model(), (IDS,), latency=False).padding is None


def test_inputs_that_torch_func_maps_over_are_not_read():
    model = Model(padding_idx=0)

    with flopsight.step_profiler(model, steps=[0]) as window:
        torch.vmap(model)(IDS.repeat(3, 1, 1), KEPT.repeat(3, 1, 1))
        window.step()

    assert window.profile.root.calls == 1
    assert window.profile.padding is None


def test_a_model_whose_configuration_raises_runs_and_is_counted():
    class Unready(nn.Linear):
        @property
        def config(self):
            raise RuntimeError("not loaded yet")

    model = Unready(8, 2, bias=False)
    with flopsight.step_profiler(model, steps=[0]) as window:
        model(torch.ones(4, 8))
        window.step()

    assert window.profile.macs == 4 * 8 * 2
