"""The data between modules: who made what another one takes, with its bytes."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.results.data_flow import INPUT, OUTPUT
from flopsight.results.records import OUTSIDE

WIDTH, BATCH = 8, 3
ROW = BATCH * WIDTH * 4
"""Bytes of one activation in float32."""


def flows(model, *args, **options):
    """Bytes by the modules at both ends; a turn after the first is written behind the path."""
    profile = flopsight.count(model, args, **{"on": "meta"} | options)
    named = lambda path, turn: f"{path}+{turn}" if turn else path  # noqa: E731
    return {(named(*source), named(*target)): size for source, target, size in profile.data_flow}


def ones(*shape):
    return torch.ones(*(shape or (BATCH, WIDTH)))


def linear():
    return nn.Linear(WIDTH, WIDTH)


class Residual(nn.Module):
    """y = x + second(first(x))."""

    def __init__(self):
        super().__init__()
        self.first, self.second = linear(), linear()

    def forward(self, x):
        return x + self.second(self.first(x))


def test_a_residual_connection_leads_past_the_modules_that_it_skips():
    assert flows(nn.Sequential(linear(), Residual()), ones()) == {
        (INPUT, "0"): ROW,
        ("0", "1.first"): ROW,
        ("1.first", "1.second"): ROW,
        ("0", "1"): ROW,
        ("1.second", "1"): ROW,
        ("1", OUTPUT): ROW,
    }


class Thrice(nn.Module):
    """One activation, in place, after each of three layers, as in a bottleneck of ResNet."""

    def __init__(self):
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.layers = nn.ModuleList(linear() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = self.act(layer(x))
        return x


def test_a_module_that_is_called_three_times_has_three_turns_and_works_in_place():
    assert flows(Thrice(), ones()) == {
        (INPUT, "layers.0"): ROW,
        ("layers.0", "act"): ROW,
        ("act", "layers.1"): ROW,
        ("layers.1", "act+1"): ROW,
        ("act+1", "layers.2"): ROW,
        ("layers.2", "act+2"): ROW,
        ("act+2", OUTPUT): ROW,
    }


class Shared(nn.Module):
    """One layer under two names, each called once."""

    def __init__(self):
        super().__init__()
        self.one = linear()
        self.other = nn.Sequential(self.one)

    def forward(self, x):
        return self.other(self.one(x))


def test_a_shared_module_is_at_the_name_that_its_caller_knows():
    assert set(flows(Shared(), ones())) == {(INPUT, "one"), ("one", "other.0"), ("other.0", OUTPUT)}


class Between(nn.Module):
    """Work of its own before, between and after two layers; a third layer is never called."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.never = linear(), linear(), linear()

    def forward(self, x):
        return self.b(self.a(x * 2).relu()) + 1


def test_work_of_a_module_itself_has_a_turn_after_each_module_that_it_calls():
    profile = flopsight.count(Between(), (ones(),), on="meta")

    assert flows(Between(), ones()) == {
        (INPUT, ""): ROW,
        ("", "a"): ROW,
        ("a", "+1"): ROW,
        ("+1", "b"): ROW,
        ("b", "+2"): ROW,
        ("+2", OUTPUT): ROW,
    }
    work = {(path, turn): ops for path, turn, ops in zip(*places(profile), strict=True)}
    assert [work["", turn] for turn in range(3)] == ["aten.mul", "aten.relu", "aten.add"]
    assert work["a", 0] == "", "a layer without submodules says what it does by its class"


def places(profile):
    return profile.data_flow.modules, profile.data_flow.turns, profile.data_flow.work


class Parts(nn.Module):
    """Takes the three parts of one projection, each twice."""

    def forward(self, x):
        q, k, v = x.chunk(3, -1)
        return q * k + v + q.transpose(0, 1).sum() + k.sum() + v.sum()


def test_each_part_of_a_tensor_is_taken_once_however_often_it_is_read():
    model = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), Parts())

    assert flows(model, ones())["0", "1"] == 3 * ROW


def test_an_expanded_tensor_is_no_larger_than_its_memory():
    class Wide(nn.Module):
        def forward(self, x):
            return x.unsqueeze(0).expand(100, -1, -1) + 1

    assert flows(nn.Sequential(linear(), Wide()), ones())["0", "1"] == ROW


class Steps(nn.Module):
    """A cell in a loop over time."""

    def __init__(self, times):
        super().__init__()
        self.cell, self.times = linear(), times

    def forward(self, x):
        for _ in range(self.times):
            x = self.cell(x).tanh()
        return x


@pytest.mark.parametrize("times", [100, 200])
def test_a_module_in_a_long_loop_is_one_place_for_all_its_turns(times):
    # x goes into the cell and comes back to the loop each time; the first comes from outside, the last goes there
    assert flows(Steps(times), ones()) == {
        (INPUT, "cell"): ROW,
        ("cell", ""): times * ROW,
        ("", "cell"): (times - 1) * ROW,
        ("", OUTPUT): ROW,
    }


def test_what_a_module_in_a_long_loop_hands_itself_is_not_drawn():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = linear()

        def forward(self, x):
            for _ in range(100):
                x = self.cell(x)
            return x

    assert flows(Loop(), ones()) == {(INPUT, "cell"): ROW, ("cell", OUTPUT): ROW}


def test_of_many_different_ops_between_modules_the_first_eight_are_kept():
    class Busy(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = linear()

        def forward(self, x):
            x = self.a(x)
            for op in ("abs", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "sqrt", "neg", "log1p"):
                x = getattr(x, op)()
            return x

    profile = flopsight.count(Busy(), (ones(),), on="meta")
    work = dict(zip(profile.data_flow.modules, profile.data_flow.work, strict=True))
    assert work[""] == " ".join(f"aten.{op}" for op in ("abs", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "sqrt"))


def test_a_forward_that_is_called_by_hand_keeps_its_own_place():
    class Direct(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = linear(), linear()

        def forward(self, x):
            return self.b.forward(self.a(x * 2) * 2) * 2

    found = flows(Direct(), ones())
    assert found["+1", "b"] == found["b", "+2"] == ROW


def test_training_and_real_tensors_have_the_same_flows_and_the_loss_beside_them():
    model = nn.Sequential(linear(), Residual())
    plain = flows(model, ones())

    trained = flows(model, ones(), on="real", train=True)

    assert {ends: size for ends, size in trained.items() if OUTSIDE not in ends[1]} == plain
    assert trained["1", OUTSIDE] == ROW


def test_every_call_of_a_model_adds_its_bytes():
    model = nn.Sequential(linear(), linear())
    loss = lambda outputs: (model(outputs) + outputs).sum()  # noqa: E731

    assert flows(model, ones(), train=True, loss=loss)["0", "1"] == 2 * ROW


def test_a_model_that_is_called_again_begins_its_turns_anew():
    model = Between()
    loss = lambda outputs: (model(outputs) + outputs).sum()  # noqa: E731

    found = flows(model, ones(), train=True, loss=loss)

    assert {source for source, _ in found} <= {INPUT, OUTSIDE, "", "a", "+1", "b", "+2"}
    assert found["", "a"] == found["+1", "b"] == 2 * ROW


def test_what_a_module_keeps_in_a_buffer_is_not_data_for_the_one_that_reads_it():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(BATCH, WIDTH))

    class Writer(Kept):
        def forward(self, x):
            self.state.copy_(x)
            return x * 2

    class Reader(Kept):
        def forward(self, x):
            return x + self.state

    model = nn.Sequential(Writer(), linear(), Reader())
    model[2].state = model[0].state

    assert flows(model, ones()) == {(INPUT, "0"): ROW, ("0", "1"): ROW, ("1", "2"): ROW, ("2", OUTPUT): ROW}


def test_weights_and_buffers_are_not_data_between_modules():
    tied = nn.Sequential(linear(), nn.BatchNorm1d(WIDTH), linear())
    tied[2].weight = tied[0].weight

    assert set(flows(tied.train(), ones())) == {(INPUT, "0"), ("0", "1"), ("1", "2"), ("2", OUTPUT)}


def test_flows_are_saved_and_loaded(tmp_path):
    profile = flopsight.count(Thrice(), (ones(),), on="meta")

    assert flopsight.load(profile.save(tmp_path / "p.json")).data_flow == profile.data_flow


def test_without_memory_no_flow_is_looked_for():
    assert flopsight.profile(linear(), (ones(),), memory=False, latency=False).data_flow is None
