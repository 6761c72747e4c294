"""A process that has recorded before counts as one that has not: nothing that is remembered stands in for what ran."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn import functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore

import flopsight

BATCH, WIDTH = 4, 8
SQUARE = BATCH * WIDTH * WIDTH
"""MACs of a square Linear on the batch."""
EVERY = 3
"""One comparison of so many is made here. The program makes all of them with 1 as its argument, in about half a minute."""


def batch() -> torch.Tensor:
    return torch.randn(BATCH, WIDTH)


def test_one_thing_changed_in_any_layer_counts_as_in_a_cold_process():
    program = Path(__file__).with_name("layer_changes.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, str(EVERY)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen["layers"]) > 100, "most layers of torch.nn have arguments and inputs"
    assert len(seen["cases"]) > len(seen["layers"])
    assert seen["forks"] > 3
    assert not seen["not_cold"], "forgetting equals a process of its own"
    assert not seen["differing"]


class Hyper(nn.Module):
    """Two layers whose weights are plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 8 * WIDTH, bias=False)
        for layer in (self.narrow, self.wide):
            weight = layer.weight.detach()
            del layer.weight
            layer.weight = weight

    def forward(self, given):
        return self.narrow(given), self.wide(given)


@pytest.mark.parametrize("times", [1, 2])
def test_weights_that_are_plain_attributes_count_by_their_shapes(times):
    model = Hyper()
    for _ in range(times):
        profile = flopsight.count(model, (batch(),))
        with flopsight.recording(model) as recording:
            model(batch())
    # 2,304
    assert profile.macs == recording.profile.macs == SQUARE + 8 * SQUARE
    assert recording.profile["wide"].macs == 8 * SQUARE


class Projections(nn.Module):
    """Two layers of 64 inputs, with 64 and 16 outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(64, 64), nn.Linear(64, 16)

    def forward(self, given):
        return self.query(given), self.key(given)


def test_fsdp_with_flat_parameters_counts_every_projection_by_its_own_weight():
    rows = 16
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        sharded = FullyShardedDataParallel(Projections(), device_id=torch.device("cpu"), use_orig_params=False)
        with torch.no_grad(), flopsight.recording(sharded) as recording:
            sharded(torch.randn(rows, 64))
    finally:
        distributed.destroy_process_group()
    # 81,920
    assert recording.profile.macs == rows * 64 * (64 + 16)


def test_a_setting_may_be_a_list():
    model = nn.Conv2d(2, 4, 3)
    with flopsight.recording(model) as recording:
        model(torch.randn(1, 2, 9, 9))
        model.stride = [2, 2]
        model(torch.randn(1, 2, 9, 9))
    assert recording.profile.macs == 4 * 2 * 3 * 3 * (7 * 7 + 4 * 4)


def test_padding_that_a_layer_has_worked_out_before_counts_as_it_is_now():
    model = nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular")
    with flopsight.recording(model) as recording:
        model(torch.randn(1, 2, 12))
        model._reversed_padding_repeated_twice = [2, 2]
        model(torch.randn(1, 2, 12))
    assert recording.profile.macs == 2 * 2 * 3 * (12 + 14)


@pytest.mark.parametrize(("home", "name"), [(F, "linear"), (nn.Linear, "forward")])
def test_a_function_that_is_replaced_while_a_recording_runs_counts(monkeypatch, home, name):
    model, plain = nn.Linear(WIDTH, WIDTH), getattr(home, name)
    with flopsight.recording(model) as recording:
        model(batch())
        monkeypatch.setattr(home, name, lambda *given: (plain(*given), plain(*given))[1])
        model(batch())
    assert recording.profile.macs == SQUARE + 2 * SQUARE


def test_an_activation_that_another_of_torchs_own_replaces_counts(monkeypatch):
    model = nn.Tanh()
    with flopsight.recording(model) as recording:
        model(batch())
        monkeypatch.setattr(torch, "tanh", torch.sigmoid)
        model(batch())
    assert sorted(row.op for row in recording.profile.root.ops if "rand" not in row.op) == ["aten.sigmoid", "aten.tanh"]


@pytest.mark.parametrize("on", ["real", "meta"])
def test_weights_with_other_strides_and_bits_run_their_own_ops(on):
    """Whatever ran before them; a negated weight is written down before a batch norm uses it."""

    def ops(*models):
        model = nn.Sequential(*models).eval()
        with torch.no_grad():
            root = flopsight.count(model, (torch.rand(2, 3, 4),), on=on).root
        return [[(row.op, row.calls, row.cost) for row in node.ops] for node in root.children]

    def norm(change):
        layer = nn.BatchNorm1d(3)
        layer.weight = nn.Parameter(change(layer.weight.detach()))
        return layer

    spread = lambda weight: torch.stack([weight, weight], 1)[:, 0]  # noqa: E731
    kinds = [lambda weight: weight, spread, torch._neg_view]
    alone = [ops(norm(kind))[0] for kind in kinds]
    assert ops(*map(norm, kinds)) == alone
    assert on == "meta" or alone[0] != alone[2]


def test_two_equal_runs_give_equal_profiles():
    """An activation on two shapes, of which an earlier recording has met the first."""
    model = nn.Sequential(nn.ReLU())

    def recorded(*rows):
        with torch.no_grad(), flopsight.recording(model) as recording:
            for count in rows:
                model(torch.ones(count, WIDTH))
        profile = recording.profile
        return replace(profile, environment=replace(profile.environment, made=""))

    recorded(31)
    first, second = recorded(31, 37), recorded(31, 37)
    assert first == second
    (relu,) = first["0"].ops
    assert relu.shapes == (((31, WIDTH),), ((37, WIDTH),))


class TwoTypes(nn.Module):
    """Makes a constant in each of two default types."""

    def forward(self, given):
        single = torch.full((WIDTH,), 1.5) + given
        torch.set_default_dtype(torch.float64)
        try:
            return single, torch.full((WIDTH,), 1.5) + given
        finally:
            torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_default_type_that_a_forward_switches_makes_other_results(on):
    profile = flopsight.count(TwoTypes(), (torch.rand(WIDTH),), on=on)
    assert profile.root.output_bytes == WIDTH * 4 + WIDTH * 8
    # the constants, and what each sum reads and writes
    moved = (WIDTH * 4 + WIDTH * 8) + 3 * WIDTH * 4 + WIDTH * (8 + 4 + 8)
    assert profile.forward.bytes == moved
