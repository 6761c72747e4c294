"""A twin passes for a model on its device: code that asks is told the device, and torch's own choices follow it."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import checkpoint

import flopsight
from flopsight.capture.twin.target_device import TargetDevice
from flopsight.engine.counting import Recording
from flopsight.engine.run_profile import Options
from flopsight.results.caveats import NoTwin

GPU = torch.device("cuda", 0)
STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 16, 32


def zeros(*shape):
    return torch.zeros(shape, device="meta")


def trained_on(device, model, *args):
    """The profile of a step of a model on meta that believes itself on a device."""
    recording = Recording(model.to("meta"), Options(target="cpu" if device.type == "cpu" else "meta"))
    with recording, TargetDevice(device):
        made = model(*args)
        while isinstance(made, tuple):
            made = made[0]
        made.sum().backward()
    return recording.profile


def ops(profile):
    rows = (row for node in profile.walk() for row in node.ops if node.path != "<outside>")
    return sum((Counter({row.op: row.calls}) for row in rows), Counter())


def test_tensors_say_that_they_are_on_the_device():
    tensor = zeros(2)

    with TargetDevice(GPU):
        told = tensor.device, tensor.is_cuda, tensor.is_meta, tensor.is_cpu, tensor.get_device()
        parameter = nn.Parameter(tensor).device
        real = torch.zeros(2, device="cpu").device

    assert told == (GPU, True, False, False, 0)
    assert parameter == GPU
    assert real.type == "cpu"
    assert tensor.device.type == "meta"


def test_numbers_that_are_there_in_python_stay_there_whatever_device_is_asked_for():
    with TargetDevice(GPU):
        made = torch.tensor([3, 4], device=GPU), torch.as_tensor([5], device=GPU), zeros(1).new_tensor([6])

    assert [one.tolist() for one in made] == [[3, 4], [5], [6]]


CELLS = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", CELLS)
def test_recurrent_layers_are_one_op_of_cudnns_on_a_gpu(kind, layers):
    state = zeros(layers, BATCH, HIDDEN)
    forward = STEPS * BATCH * CELLS[kind] * HIDDEN * ((WIDTH + HIDDEN) + (layers - 1) * 2 * HIDDEN)

    profile = trained_on(
        GPU, getattr(nn, kind)(WIDTH, HIDDEN, layers), zeros(STEPS, BATCH, WIDTH),
        (state, state) if kind == "LSTM" else state,
    )  # fmt: skip

    assert ops(profile) == {"aten._cudnn_rnn": 1, "aten._cudnn_rnn_backward": 1}
    assert (profile.macs, profile.backward.macs) == (forward, 2 * forward)


def test_packed_sequences_go_to_cudnn_with_their_lengths():
    packed = PackedSequence(zeros(10, WIDTH), torch.tensor([3, 3, 2, 1, 1]))
    state = zeros(1, BATCH, HIDDEN)

    profile = trained_on(GPU, nn.LSTM(WIDTH, HIDDEN), packed, (state, state))

    assert profile.macs == 10 * 4 * HIDDEN * (WIDTH + HIDDEN)


def test_a_projection_counts_in_every_step():
    forward = STEPS * BATCH * (4 * HIDDEN * (WIDTH + 8) + HIDDEN * 8)

    profile = trained_on(
        GPU,
        nn.LSTM(WIDTH, HIDDEN, proj_size=8),
        zeros(STEPS, BATCH, WIDTH),
        (zeros(1, BATCH, 8), zeros(1, BATCH, HIDDEN)),
    )

    assert (profile.macs, profile.backward.macs) == (forward, 2 * forward)


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x):
        return torch.dropout(self.drop(self.layer(x)), 0.1, train=True)


def test_dropout_is_one_op_on_a_gpu_and_on_meta_which_stands_for_one_and_two_on_a_cpu():
    devices = (GPU, torch.device("meta"), torch.device("cpu"))
    on_gpu, on_meta, on_cpu = (trained_on(device, Drops(), zeros(3, 4)) for device in devices)

    assert ops(on_gpu)["aten.native_dropout"] == ops(on_gpu)["aten.native_dropout_backward"] == 2
    assert ops(on_meta) == ops(on_gpu)
    assert ops(on_cpu)["aten.bernoulli_"] == 2
    assert "aten.native_dropout" not in ops(on_cpu)
    assert on_gpu.flops == on_cpu.flops


def test_a_checkpoint_in_a_checkpoint_finds_its_tensors_on_the_device_where_they_were():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)

        def forward(self, x):
            once = lambda x: checkpoint(self.inner, x, use_reentrant=False)  # noqa: E731
            return checkpoint(lambda x: self.outer(once(x)), x, use_reentrant=False)

    profile = flopsight.count(Nested(), (torch.ones(2, 4),), train=True, on="meta")

    product = 2 * 4 * 4
    assert not any(isinstance(caveat, NoTwin) for caveat in profile.caveats)
    assert profile.macs == 2 * product
    assert profile.backward.macs == 3 * product, "both weights, and the input of the second"
