"""profile(), count() and recording() leave the model, its optimizer, the inputs and the generators as they were."""

import pytest
import torch
from torch import nn
from toys import BrokenStep, Net, Raises, RaisesInBackward, Trouble, rows

import flopsight
from flopsight.errors import InputError


def stepped():
    """A model and an Adam that have made a step: gradients and state are there."""
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    model(rows()).sum().backward()
    optimizer.step()
    return model, optimizer


MEASURES = {
    "count": flopsight.count,
    "count on meta": lambda *a, **k: flopsight.count(*a, on="meta", **k),
    "profile": lambda *a, **k: flopsight.profile(*a, warmup=2, repeats=2, **k),
    "profile without time": lambda *a, **k: flopsight.profile(*a, latency=False, **k),
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("train", [False, True])
def test_a_measured_model_is_as_it_was(no_trace, measure, mode, train):
    model, _ = stepped()
    getattr(model, mode)()

    with no_trace(model):
        MEASURES[measure](model, (torch.ones(4, 8),), train=train)


FROM_A_SHAPE = MEASURES | {
    "get_model_profile": lambda model, input_shape: flopsight.get_model_profile(model, input_shape, print_profile=False)
}


@pytest.mark.parametrize("measure", FROM_A_SHAPE)
@pytest.mark.parametrize("model", [Net, lambda: Net().double(), nn.ReLU], ids=["float", "double", "no parameters"])
def test_inputs_made_from_a_shape_do_not_move_the_generators(no_trace, measure, model):
    model = model()

    with no_trace(model):
        FROM_A_SHAPE[measure](model, input_shape=(4, 8))


@pytest.mark.parametrize("measure", MEASURES)
def test_submodules_in_different_modes_keep_them(no_trace, measure):
    model = Net()
    model.norm.eval()

    with no_trace(model):
        MEASURES[measure](model, (torch.ones(4, 8),))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("stepped_before", [False, True])
def test_an_optimizer_keeps_its_state_the_very_tensors_and_values(no_trace, measure, stepped_before):
    model, optimizer = stepped() if stepped_before else (Net(), None)
    optimizer = optimizer or torch.optim.Adam(model.parameters())
    entries = {
        p: (state, dict(state), {k: v.clone() for k, v in state.items()}) for p, state in optimizer.state.items()
    }
    groups = [(group, dict(group)) for group in optimizer.param_groups]

    with no_trace(model):
        MEASURES[measure](model, (torch.ones(4, 8),), train=True, optimizer=optimizer)

    assert list(optimizer.state) == list(entries)
    for parameter, (state, tensors, values) in entries.items():
        assert optimizer.state[parameter] is state
        for name, tensor in tensors.items():
            assert state[name] is tensor
            assert torch.equal(tensor, values[name])
    assert [(group, dict(group)) for group in optimizer.param_groups] == groups


def test_an_optimizer_that_changes_its_own_settings_has_them_back():
    class Schedules(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            self.param_groups[0]["lr"] /= 2
            self.calls = getattr(self, "calls", 0) + 1

    model = Net()
    optimizer = Schedules(model.parameters(), lr=0.5)

    flopsight.profile(model, (torch.ones(4, 8),), train=True, optimizer=optimizer, warmup=0, repeats=1)

    assert optimizer.param_groups[0]["lr"] == 0.5
    assert not hasattr(optimizer, "calls")


@pytest.mark.parametrize("measure", MEASURES)
def test_gradients_stay_the_very_tensors(measure):
    model, optimizer = stepped()
    gradients = {name: (p.grad, p.grad.clone()) for name, p in model.named_parameters()}

    MEASURES[measure](model, (torch.ones(4, 8),), train=True, optimizer=optimizer)

    for name, parameter in model.named_parameters():
        gradient, value = gradients[name]
        assert parameter.grad is gradient
        assert torch.equal(gradient, value)


@pytest.mark.parametrize("measure", MEASURES)
def test_an_input_s_gradient_is_the_user_s(measure):
    x = torch.ones(4, 8, requires_grad=True)

    MEASURES[measure](Net(), (x,), train=True)

    assert x.grad is None


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("before", [None, torch.full((2,), 3.0)], ids=["no gradient", "a gradient"])
def test_what_else_the_loss_reads_keeps_its_gradient(measure, before):
    model, scale = Net(), nn.Parameter(torch.ones(2))
    scale.grad = before
    loss = lambda output: (output * scale).sum() + sum(p.square().sum() for p in model.parameters())  # noqa: E731

    MEASURES[measure](model, (torch.ones(4, 8),), train=True, loss=loss)

    assert scale.grad is before
    assert before is None or torch.equal(before, torch.full((2,), 3.0))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("wrap", [lambda x: (x,), lambda x: ([{"x": x}],)], ids=["bare", "in containers"])
def test_backward_stops_at_the_inputs(measure, wrap):
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 2)

        def forward(self, x):
            x = x if isinstance(x, torch.Tensor) else x[0]["x"]
            return self.layer(x.relu_())  # in place, which a leaf would refuse

    backbone = nn.Linear(8, 8)
    features = backbone(torch.ones(4, 8)).sigmoid()
    before = features.detach().clone()

    MEASURES[measure](Head(), wrap(features), train=True)

    assert backbone.weight.grad is None
    assert torch.equal(features, before)
    features.sum().backward()  # its graph is still there
    assert backbone.weight.grad is not None


@pytest.mark.parametrize("measure", MEASURES)
def test_inputs_that_the_model_writes_into_have_their_values_back(measure):
    class Doubles(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    x = torch.ones(4, 8)
    version = x._version

    MEASURES[measure](Doubles(), (x,))

    assert torch.equal(x, torch.ones(4, 8))
    assert x._version == version


class Remembers(nn.Module):
    """A model that changes itself in every way that Python knows."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("mask", torch.zeros(1, 8).expand(4, 8))
        self.longest, self.seen, self.notes = 8, [], {"first": 0}

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.mean.data.add_(1)
        self.longest = self.longest + 8
        self.seen.append(x)
        self.notes["last"] = x
        self.register_buffer("late", x.detach())
        self.head = nn.Linear(8, 2)
        self.train(not self.training)
        return self.head(x + self.mean + self.mask)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_model_that_changes_itself_is_put_back_whole(no_trace, measure):
    model = Remembers()
    buffers, seen, notes = dict(model.named_buffers()), model.seen, model.notes

    with no_trace(model):
        MEASURES[measure](model, (torch.ones(4, 8),))

    assert (model.longest, model.seen, model.notes) == (8, [], {"first": 0})
    assert model.seen is seen
    assert model.notes is notes
    assert all(tensor is buffers[name] for name, tensor in model.named_buffers())


def test_what_a_model_added_to_itself_during_the_run_is_in_the_profile():
    profile = flopsight.count(Remembers(), (torch.ones(4, 8),))

    assert profile["head"].macs == 4 * 8 * 2


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("problem", [Trouble, KeyboardInterrupt, StopIteration])
def test_a_model_that_raises_is_as_it_was(no_trace, measure, problem):
    model = Raises(problem())

    with no_trace(model), pytest.raises(problem):
        MEASURES[measure](model, (torch.ones(4, 8),))


@pytest.mark.parametrize("measure", MEASURES)
def test_trouble_in_the_loss_the_backward_or_the_step_leaves_nothing(no_trace, measure):
    def loss(output):
        raise Trouble

    model, _ = stepped()
    broken = RaisesInBackward()
    x = torch.ones(4, 8)

    with no_trace(model), pytest.raises(Trouble):
        MEASURES[measure](model, (x,), train=True, loss=loss)
    with no_trace(model), pytest.raises(InputError):
        MEASURES[measure](model, (x,), train=True, loss=lambda output: output)
    with no_trace(broken), pytest.raises(Trouble):
        MEASURES[measure](broken, (x,), train=True)
    with no_trace(model), pytest.raises(Trouble):
        MEASURES[measure](model, (x,), train=True, optimizer=BrokenStep(model.parameters(), lr=0.1))


def test_after_a_model_that_raised_a_good_one_counts_as_ever():
    fresh = flopsight.count(Net(), (torch.ones(4, 8),))

    for _ in range(3):
        with pytest.raises(Trouble):
            flopsight.count(Raises(), (torch.ones(4, 8),))

    again = flopsight.count(Net(), (torch.ones(4, 8),))
    assert (again.flops, again.root.calls) == (fresh.flops, 1)


def test_a_recording_changes_nothing_that_the_run_would_not_change(no_trace):
    model = Net().eval()
    x = torch.ones(4, 8)

    with torch.random.fork_rng(), torch.no_grad():
        expected = model.up(x)
        with flopsight.recording(model):
            output = model.up(x)

    assert torch.equal(output, expected)


def test_a_recording_ends_with_its_block_also_when_it_raises(no_trace):
    model = nn.Linear(8, 2)

    with no_trace(model), pytest.raises(Trouble), flopsight.recording(model):
        model(torch.ones(4, 8))
        raise Trouble


@pytest.mark.parametrize("on", ["real", "meta"])
def test_neither_our_run_nor_our_copies_show_in_a_recording_around_us(on):
    model = Net()

    with flopsight.recording() as around:
        inside = flopsight.count(model, (torch.ones(4, 8),), on=on)

    assert inside.macs > 0
    assert dict(around.profile.coverage.free) == {"aten.ones": 1}, "the input, which the user makes"
    assert around.profile.coverage.calls == 1
    assert [node.path for node in around.profile.walk()] == ["", "<outside>"]


def test_results_do_not_keep_the_inputs_alive():
    import gc
    import weakref

    x = torch.ones(4, 8)
    alive = weakref.ref(x)

    profile = flopsight.profile(Net(), (x,), warmup=0, repeats=1)
    del x
    gc.collect()

    assert alive() is None
    assert profile.batch_size == 4
