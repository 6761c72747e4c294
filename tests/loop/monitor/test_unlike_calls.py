"""Calls with equal arguments that do different work: each step against torch's own counter, also when the work changes late."""

from functools import partial
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from loop.monitor.training import HIDDEN, OUT, WIDE, mlp, rows, sgd
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, vmap
from torch.utils.flop_counter import FlopCounterMode

import flopsight

STEPS, LATE = 12, 6


def trained(model, optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def steered(model, name, *values):
    """Steps of a model with an attribute that has its first value for long, and then the others in turn."""
    optimizer = sgd(model)

    def step(number):
        setattr(model, name, values[0] if number < LATE else values[number % len(values)])
        trained(model, optimizer, model(rows(4)).square().mean())

    return model, optimizer, step


class Elastic(nn.Module):
    """A kernel that may be made smaller, with windows in as many places."""

    def __init__(self):
        super().__init__()
        self.kernel, self.size = nn.Parameter(torch.ones(2, 1, 5, 5)), 5

    def forward(self, x):
        edge = 2 - self.size // 2
        kernel = self.kernel[:, :, edge : 5 - edge, edge : 5 - edge]
        return torch.conv2d(x[:, None, None], kernel, padding=self.size // 2)


class Sliced(nn.Module):
    """Uses as many features of its input as an attribute says."""

    def __init__(self):
        super().__init__()
        self.weight, self.used = nn.Parameter(torch.ones(WIDE, OUT)), WIDE

    def forward(self, x):
        return x[:, : self.used] @ self.weight[: self.used]


class Slim(nn.Module):
    """Uses as many hidden features as an attribute says."""

    def __init__(self):
        super().__init__()
        self.up, self.down = (nn.Parameter(torch.ones(wide)) for wide in ((WIDE, HIDDEN), (HIDDEN, OUT)))
        self.used = HIDDEN

    def forward(self, x):
        return x @ self.up[:, : self.used] @ self.down[: self.used]


class Headed(nn.Module):
    """Has a head for each task."""

    def __init__(self):
        super().__init__()
        self.body, self.task = nn.Linear(WIDE, WIDE), "narrow"
        self.heads = nn.ModuleDict({"narrow": nn.Linear(WIDE, 3), "wide": nn.Linear(WIDE, 50)})

    def forward(self, x):
        return self.heads[self.task](self.body(x))


class Stopped(nn.Module):
    """May stop gradients between its layers."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.stops = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE), False
        self.config = SimpleNamespace(stops=False)

    def forward(self, x):
        x = self.up(x)
        return self.down(x.detach() if self.stops or self.config.stops else x)


class Again(nn.Module):
    """Runs a layer without gradients as often as an attribute says."""

    def __init__(self):
        super().__init__()
        self.fixed, self.down, self.times = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE), 1

    def forward(self, x):
        with torch.no_grad():
            for _ in self.times if isinstance(self.times, list) else range(self.times):
                x = self.fixed(x)
        return self.down(x)


def kernels():
    return steered(Elastic(), "size", 5, 3, 1)


def slices():
    return steered(Sliced(), "used", WIDE, 4, 2)


def tasks():
    return steered(Headed(), "task", "narrow", "wide")


def stops():
    return steered(Stopped(), "stops", False, True)


def repeats():
    return steered(Again(), "times", 1, 5, 2)


def a_config():
    model = Stopped()
    optimizer = sgd(model)

    def step(number):
        model.config.stops = number >= LATE
        trained(model, optimizer, model(rows(4)).square().mean())

    return model, optimizer, step


def a_list():
    model = Again()
    model.times = [0]
    optimizer = sgd(model)

    def step(number):
        if number == LATE:
            model.times.extend([1, 2])
        trained(model, optimizer, model(rows(4)).square().mean())
        if number == STEPS - 1:
            del model.times[1:]

    return model, optimizer, step


class Passing(Stopped):
    """Is given what comes between its layers."""

    def forward(self, x, between):
        return self.down(between(self.up(x)))


class Between:
    """Stops gradients or not; all that says which is in a slot."""

    __slots__ = ("itself", "stops")

    def __init__(self, stops):
        self.stops, self.itself = stops, self

    @property
    def shape(self):
        raise AssertionError("nobody else reads this")

    def run(self, x):
        return x.detach() if self.stops else x


def passing(make):
    """Steps of a model that is given something else late."""
    model = Passing()
    optimizer = sgd(model)

    def step(number):
        trained(model, optimizer, model(rows(4), make(number >= LATE)).square().mean())

    return model, optimizer, step


def a_function():
    return passing(lambda late: (lambda x: x.detach()) if late else (lambda x: x))


def a_function_with_a_flag():
    return passing(lambda late: lambda x: x.detach() if late else x)


def a_part_of_a_function():
    return passing(lambda late: partial(lambda x, stops: x.detach() if stops else x, stops=late))


def a_method():
    return passing(lambda late: Between(late).run)


def a_function_that_is_not_whole():
    def make(late):
        def between(x):
            return x if x is not None else never  # an empty cell

        if late is None:
            never = 1
        return between

    return passing(make)


def widths_below_a_hook():
    model = Slim()
    model.register_forward_hook(lambda *_: None)
    return steered(model, "used", HIDDEN, 8, 4, 2)


def frozen_in_a_functional_call():
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Conv1d(2, 3, 3))
    optimizer = sgd(model)

    def step(number):
        given = dict(model.named_parameters())
        if number >= LATE:
            given["1.weight"] = given["1.weight"].detach()
        trained(model, optimizer, functional_call(model, given, (rows(4)[:, None],)).square().mean())

    return model, optimizer, step


def an_object_with_tensors():
    class OfBag(nn.Linear):
        def forward(self, bag):
            return super().forward(bag.held.x[: bag.used])

    model = OfBag(WIDE, OUT)
    optimizer = sgd(model)

    def step(number):
        bag = SimpleNamespace(held=SimpleNamespace(x=rows(4 + number % 3)), used=2 + (number > LATE))
        trained(model, optimizer, model(bag).square().mean())

    return model, optimizer, step


def a_ratio_that_is_given():
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, OUT)

        def forward(self, x, share):
            return self.down(self.up(x)[: int(share * len(x))])

    model = Dropping()
    optimizer = sgd(model)

    def step(number):
        trained(model, optimizer, model(rows(8), 0.5 if number < LATE else 0.25).square().mean())

    return model, optimizer, step


def a_layer_replaced_by_one_with_strides():
    layers = [nn.Conv1d(1, 2, 3, padding=1, stride=stride, bias=False) for stride in (1, 2)]
    model = nn.Sequential(layers[0], nn.Conv1d(2, 2, 1))
    optimizer = torch.optim.SGD([*layers[0].parameters(), *layers[1].parameters(), *model[1].parameters()], lr=0.01)

    def step(number):
        model[0] = layers[number >= LATE]
        trained(model, optimizer, model(rows(4)[:, None]).square().mean())

    return model, optimizer, step


def windows_of_a_loss():
    model = nn.Conv2d(1, 1, 3, padding=1)
    optimizer = sgd(model)

    def step(number):
        size = (3, 5, 7)[number % 3]
        seen = torch.conv2d(model(torch.ones(2, 1, 8, 8)), torch.ones(1, 1, size, size), padding=size // 2)
        trained(model, optimizer, seen.square().mean())

    return model, optimizer, step


def decompositions_in_a_loss():
    model = nn.Linear(WIDE, WIDE)
    optimizer = sgd(model)

    def step(number):
        out = model(rows(WIDE))
        losses = (torch.linalg.matrix_norm(out, "nuc"), torch.linalg.inv(out + 9 * torch.eye(WIDE)).sum(), out.norm())
        trained(model, optimizer, losses[number % 3])

    return model, optimizer, step


def gradients_of_each_sample():
    model = mlp()
    optimizer = sgd(model)

    def step(number):
        held = {name: one.detach() for name, one in model.named_parameters()}
        each = vmap(grad(lambda held, x: functional_call(model, held, (x,)).square().mean()), (None, 0))
        for name, found in each(held, rows(3 + number % 2)).items():
            model.get_parameter(name).grad = found.mean(0)
        optimizer.step()

    return model, optimizer, step


def tangents_beside_a_call():
    model = mlp()
    optimizer = sgd(model)

    def step(number):
        with torch.no_grad(), forward_ad.dual_level():
            model(forward_ad.make_dual(rows(3), rows(3)) if number % 2 else rows(3))
        trained(model, optimizer, model(rows(4)).square().mean())

    return model, optimizer, step


LOOPS = (
    kernels, slices, tasks, stops, repeats, a_config, a_list, a_function,
    a_function_with_a_flag, a_part_of_a_function, a_method, a_function_that_is_not_whole, widths_below_a_hook, frozen_in_a_functional_call, an_object_with_tensors,
    a_ratio_that_is_given, a_layer_replaced_by_one_with_strides, windows_of_a_loss, decompositions_in_a_loss,
    gradients_of_each_sample, tangents_beside_a_call,
)  # fmt: skip


@pytest.mark.parametrize("made", LOOPS)
def test_every_step_has_its_own_work_or_says_that_it_is_not_known(made):
    torch.manual_seed(0)
    model, optimizer, step = made()
    with flopsight.monitor(model, optimizer, every=1) as live:
        for number in range(STEPS):
            step(number)

    plain = []
    for number in range(STEPS):
        with FlopCounterMode(display=False) as counter:
            step(number)
        plain.append(counter.get_total_flops())
    intervals = live.summary().intervals
    known = [at for at, one in enumerate(intervals) if one.total_model_flops is not None and not one.estimated]

    assert len(intervals) == STEPS
    assert [intervals[at].total_model_flops for at in known] == [plain[at] for at in known]
    assert len(known) >= STEPS - 3


class Counting(nn.Module):
    """Has attributes that change with each call and steer nothing, and some that become something else."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.held, self.gone = nn.Linear(WIDE, OUT, bias=False), 0, 0, 1

    def forward(self, x):
        self.calls += 1
        self.held = self.layer(x)
        vars(self).pop("gone", None)
        return self.held


def test_an_attribute_that_counts_is_soon_left_alone():
    model = Counting()
    optimizer = sgd(model)
    with flopsight.monitor(model, optimizer, every=1) as live:
        for _ in range(20):
            trained(model, optimizer, model(rows(4)).sum())

    run = live.summary()
    assert [one.total_model_flops for one in run.intervals] == [2 * 2 * 4 * WIDE * OUT] * 20
    assert run.shapes <= 8
    assert not run.notes


class TrainsItself(nn.Module):
    """Makes whole steps of a training, some of them in several updates."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, OUT, bias=False)
        self.optimizer = sgd(self.layer)

    def forward(self, x, updates):
        for _ in range(updates):
            loss = self.layer(x).sum()
            trained(self.layer, self.optimizer, loss)
        return loss.detach()


def test_a_step_that_ends_within_a_call_ends_with_it():
    model = TrainsItself()
    with flopsight.monitor(model, model.optimizer, every=1) as live:
        for number in range(8):
            model(rows(4), 1 + number % 2)

    found = [one.total_model_flops for one in live.summary().intervals]
    expected = [(1 + number % 2) * 2 * 2 * 4 * WIDE * OUT for number in range(8)]
    assert len(found) == 8
    assert all(one in (None, right) for one, right in zip(found, expected, strict=True))
    assert found[2:] == expected[2:]


@pytest.mark.parametrize("trained_there", [True, False])
def test_a_call_on_another_thread_is_in_no_step_and_its_gradients_make_the_work_unknown(trained_there):
    model, other, results = nn.Linear(WIDE, OUT, bias=False), nn.Linear(WIDE, OUT, bias=False), []
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.01)

    def elsewhere():
        with torch.set_grad_enabled(trained_there):
            results.append(other(rows(4)))

    with flopsight.monitor([model, other], optimizer, every=1) as live:
        for _ in range(5):
            worker = Thread(target=elsewhere)
            worker.start()
            worker.join()
            trained(model, optimizer, (model(rows(4)) + results[-1]).sum())

    found = [one.total_model_flops for one in live.summary().intervals]
    assert found[1:] == [None if trained_there else 2 * 2 * 4 * WIDE * OUT] * 4
