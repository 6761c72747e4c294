"""What goes into a twin: one tensor of the user's has one twin, however often and wherever it is given."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flopsight
from flopsight.capture.twin.meta_copy import on_meta

WORDS, WIDE, BATCH, LENGTH = 10, 8, 2, 16
IDS = BATCH * LENGTH * 8
"""Bytes of the token ids, which are int64."""


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDE)
        self.head = nn.Linear(WIDE, WORDS)

    def forward(self, input_ids, labels):
        return F.cross_entropy(self.head(self.embed(input_ids)).flatten(0, 1), labels.flatten())


@pytest.mark.parametrize(
    "given",
    [lambda x, y: ((), {"input_ids": x, "labels": y}), lambda x, y: ((x,), {"labels": y}), lambda x, y: ((x, y), {})],
    ids=["by name", "both ways", "in order"],
)
def test_an_input_that_is_given_twice_takes_its_memory_once(given):
    ids = torch.randint(WORDS, (BATCH, LENGTH))
    model = LanguageModel()
    profiles = {on: flopsight.count(model, *given(ids, ids), train=True, on=on) for on in ("real", "meta")}
    apart = flopsight.count(model, *given(ids, ids.clone()), train=True, on="meta")

    assert {on: profile.at_peak["inputs"] for on, profile in profiles.items()} == {"real": IDS, "meta": IDS}
    assert apart.at_peak["inputs"] == 2 * IDS
    assert profiles["meta"].peak_bytes == profiles["real"].peak_bytes == apart.peak_bytes - IDS


def test_one_tensor_has_one_twin_in_every_container():
    x = torch.ones(2, 3)

    (first, named), equal = on_meta(([x, {"again": x}], x.clone()))

    assert first is named["again"]
    assert first is not equal
