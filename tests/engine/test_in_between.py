"""A profile that is asked for before its run is over shows what there is, and is not the last word."""

import torch
from torch import nn

import flopsight

X = torch.ones(4, 8)
LAYER = 4 * 8 * 8


def test_a_recording_that_is_looked_at_goes_on():
    model = nn.Linear(8, 8)

    with flopsight.recording(model) as recording:
        model(X)
        early = recording.profile.macs
        model(X)

    assert (early, recording.profile.macs) == (LAYER, 2 * LAYER)
    assert recording.profile is recording.profile


def test_a_step_that_is_looked_at_while_it_is_counted_goes_on():
    model = nn.Linear(8, 8)

    with flopsight.step_profiler(model, steps=range(1, 2)) as prof:
        for _ in range(3):
            model(X)
            if prof.current == 1:
                assert prof.profile.macs == LAYER
            model(X)
            prof.step()

    assert prof.profile.macs == 2 * LAYER
