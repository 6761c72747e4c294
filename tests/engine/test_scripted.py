"""TorchScript models, scripted, traced or frozen, are counted like the model they were made from."""

import re

import pytest
import torch
from torch import nn

import flopsight

BATCH = torch.ones(4, 8)
MACS = 4 * 8 * 16 + 4 * 16 * 2


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).eval()


class Holder(nn.Module):
    """A scripted part in a model of plain modules."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, batch):
        return self.part(batch)


MAKERS = {
    "scripted": torch.jit.script,
    "traced": lambda model: torch.jit.trace(model, BATCH),
    "frozen": lambda model: torch.jit.freeze(torch.jit.script(model)),
    "optimized": lambda model: torch.jit.optimize_for_inference(torch.jit.script(model)),
}


def in_a_recording(model):
    with flopsight.recording() as recording:
        model(BATCH)
    return recording.profile


def in_a_loop(model):
    with flopsight.step_profiler(model, steps=range(1, 3)) as steps:
        for _ in range(3):
            model(BATCH)
            steps.step()
    return steps.profile


WAYS = {
    "count": lambda model: flopsight.count(model, (BATCH,)),
    "meta": lambda model: flopsight.count(model, (BATCH,), on="meta"),
    "recording": in_a_recording,
    "loop": in_a_loop,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("whole", [True, False], ids=["alone", "held"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", MAKERS)
def test_what_a_torchscript_model_multiplies_is_counted(made, way, whole):
    part = MAKERS[made](network())
    model = part if whole else Holder(part)

    profile = WAYS[way](model)

    assert profile.macs == MACS
    assert profile.root.calls == 1


def test_a_model_that_is_traced_inside_a_recording_has_the_graph_that_it_has_without_us():
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(2, 4)
    alone = torch.jit.trace(model, x)

    with flopsight.recording(model) as recording:
        traced = torch.jit.trace(model, x, check_trace=False)

    names = re.compile(r"___torch_mangle_\d+\.")
    assert names.sub("", str(traced.inlined_graph)) == names.sub("", str(alone.inlined_graph))
    assert recording.profile.macs == 2 * (4 * 8 + 8 * 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_traced_model_in_training_is_counted_again_when_torchscript_optimizes_it(way):
    model = torch.jit.trace(
        nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 2)), BATCH, check_trace=False
    )

    counts = [WAYS[way](model).macs for _ in range(3)]

    assert counts == [MACS] * 3
