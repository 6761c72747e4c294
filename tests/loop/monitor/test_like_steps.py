"""Steps that look alike and do other work: each has its own FLOPs, against sums written here."""

import torch
from loop.monitor.training import HIDDEN, OUT, WIDE, mlp, model_flops, rows, watched
from torch import nn
from torch.nn import functional as F

ROWS, MORE = 4, 6
UP, DOWN = 2 * ROWS * WIDE * HIDDEN, 2 * ROWS * HIDDEN * OUT
"""FLOPs of the two layers of `mlp()`."""


def test_a_backward_for_some_parameters_has_the_work_for_these():
    wanted = ("last", "all", "last", "first", "all", "first")

    def loop(model, optimizer, live):
        parts = {
            "last": list(model[2].parameters()),
            "all": list(model.parameters()),
            "first": list(model[0].parameters()),
        }
        for name in wanted:
            model(rows(ROWS)).square().mean().backward(inputs=parts[name])
            optimizer.step()

    seen, _ = watched(loop, every=1)

    backward = {"last": DOWN, "first": DOWN + UP, "all": DOWN + DOWN + UP}  # of the second layer: its weight, its input
    assert model_flops(seen) == [UP + DOWN + backward[name] for name in wanted]


def test_a_gradient_of_an_input_is_not_one_of_the_weights():
    def loop(model, optimizer, live):
        for number in range(6):
            batch = rows(ROWS).requires_grad_()
            loss = model(batch).square().mean()
            for wanted in ([batch], [model[2].weight])[number % 2]:
                torch.autograd.grad(loss, wanted)
            optimizer.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [UP + DOWN + backward for backward in (DOWN + UP, DOWN) * 3]


class Heads(nn.Module):
    """Two heads over one layer, of which a call gives one or both."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(WIDE, HIDDEN, bias=False)
        self.one, self.other = (nn.Linear(HIDDEN, OUT, bias=False) for _ in range(2))

    def forward(self, x, both):
        hidden = self.body(x)
        one, other = self.one(hidden), self.other(hidden)
        return (one, other) if both else other


def test_a_call_with_an_output_more_that_is_not_used_has_no_backward_of_it():
    def loop(model, optimizer, live):
        for both in (False, False, False, True, False, True):
            output = model(rows(ROWS), both)
            (output[-1] if both else output).square().mean().backward()
            optimizer.step()

    seen, _ = watched(loop, model=Heads(), every=1)

    assert model_flops(seen) == [(UP + 2 * DOWN) + (DOWN + DOWN + UP)] * 6


class Stops(nn.Module):
    """A layer that may keep gradients from what made its input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(HIDDEN, OUT, bias=False)

    def forward(self, x, stop):
        return self.layer(x.detach() if stop else x)


def test_a_call_that_stops_gradients_keeps_them_from_the_call_before():
    def loop(model, optimizer, live):
        for stop in (False, False, False, True, False, True):
            model[1](model[0](rows(ROWS)), stop=stop).square().mean().backward()
            optimizer.step()

    model = nn.Sequential(nn.Linear(WIDE, HIDDEN, bias=False), Stops())
    seen, _ = watched(loop, model=model, every=1)

    whole, stopped = (DOWN + DOWN + UP), DOWN
    assert model_flops(seen) == [UP + DOWN + (stopped if stop else whole) for stop in (0, 0, 0, 1, 0, 1)]


def test_products_of_the_loss_are_counted_at_every_size():
    sizes = (3, 3, 5, 5, 3, 5)

    def loop(model, optimizer, live):
        for number, size in enumerate(sizes):
            classes = torch.randn(size, OUT, generator=torch.Generator().manual_seed(number))
            F.cross_entropy(model(rows(ROWS)) @ classes.T, torch.zeros(ROWS, dtype=torch.int64)).backward()
            optimizer.step()

    seen, _ = watched(loop, model=mlp(), every=1)

    own = [2 * ROWS * OUT * size for size in sizes]  # forward, and as much for the gradient of the output
    assert model_flops(seen) == [UP + DOWN + (DOWN + DOWN + UP) + 2 * scores for scores in own]


def test_a_backward_from_losses_that_can_be_read_once_makes_its_gradients_and_is_counted():
    def loop(model, optimizer, live):
        for _ in range(3):
            optimizer.zero_grad()
            torch.autograd.backward(loss for loss in [model(rows(ROWS)).square().mean()])
            assert all(parameter.grad is not None for parameter in model.parameters())
            optimizer.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [UP + DOWN + (DOWN + DOWN + UP)] * 3


def test_gradients_of_parameters_that_can_be_read_once_are_made_and_counted():
    def loop(model, optimizer, live):
        for _ in range(3):
            gradients = torch.autograd.grad(model(rows(ROWS)).square().mean(), model[2].parameters())
            assert [one.shape for one in gradients] == [model[2].weight.shape, model[2].bias.shape]
            optimizer.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [UP + DOWN + DOWN] * 3


def test_a_backward_from_an_edge_of_the_graph_is_counted():
    def loop(model, optimizer, live):
        for _ in range(3):
            edge = torch.autograd.graph.get_gradient_edge(model(rows(ROWS)).square().mean())
            torch.autograd.backward(edge, torch.ones(()))
            optimizer.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [UP + DOWN + (DOWN + DOWN + UP)] * 3


class TwoHeads(nn.Module):
    """Gives both outputs in every call."""

    def __init__(self):
        super().__init__()
        self.body, self.one, self.other = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 3), nn.Linear(WIDE, 5)

    def forward(self, x):
        hidden = self.body(x)
        return self.one(hidden), self.other(hidden)


BODY, ONE, OTHER = (2 * ROWS * WIDE * wide for wide in (WIDE, 3, 5))
BOTH = BODY + ONE + OTHER + (BODY + 2 * ONE + 2 * OTHER)
"""Forward, and backward from the sum of both outputs: the batch needs no gradient."""


def test_a_loss_that_takes_its_outputs_in_turn_has_the_backward_of_the_one_it_took():
    def loop(model, optimizer, live):
        for number in range(6):
            optimizer.zero_grad()
            one, other = model(rows(ROWS))
            (one if number % 2 else other).sum().backward()
            optimizer.step()

    seen, _ = watched(loop, model=TwoHeads(), every=1)

    assert model_flops(seen) == [2176, 1920] * 3
    assert [BOTH - 2 * ONE, BOTH - 2 * OTHER] == [2176, 1920]


def test_a_loss_that_takes_one_output_twice_has_no_backward_of_the_other():
    def loop(model, optimizer, live):
        for both in (True, True, False, True, False):
            optimizer.zero_grad()
            one, other = model(rows(ROWS))
            (one.sum() + (other if both else one).sum()).backward()
            optimizer.step()

    seen, _ = watched(loop, model=TwoHeads(), every=1)

    assert model_flops(seen) == [BOTH, BOTH, BOTH - 2 * OTHER, BOTH, BOTH - 2 * OTHER]


def test_equal_products_of_the_loss_are_counted_as_often_as_they_run():
    counts = (2, 2, 3, 3, 2, 1, 1, 3)

    def loop(model, optimizer, live):
        square = torch.ones(3, 3)
        for count in counts:
            optimizer.zero_grad()
            one, other = model(rows(ROWS))
            (sum((one @ square).sum() for _ in range(count)) + other.sum()).backward()
            optimizer.step()

    seen, _ = watched(loop, model=TwoHeads(), every=1)

    product = 2 * ROWS * 3 * 3  # forward, and as much for the gradient of the output
    assert model_flops(seen) == [BOTH + 2 * product * count for count in counts]
