"""A monitored loop trains as it does without us, and nothing is left behind."""

import random
import threading

import numpy as np
import pytest
import torch
from loop.monitor.training import mlp, mlp_flops, model_flops, one_step, rows, sgd, watched
from torch import nn
from toys import Net, Trouble

import flopsight
from flopsight.errors import InputError, StateError


def losses(monitored):
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []

    def loop():
        for count in (4, 6, 4, 5):
            optimizer.zero_grad()
            loss = model(torch.randn(count, 8)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        found.append((random.random(), np.random.rand(), torch.rand(()).item()))

    if monitored:
        with flopsight.monitor(model, optimizer, every=2, to=lambda record: None):
            loop()
    else:
        loop()
    return found


def test_losses_and_random_numbers_are_those_of_the_run_without_us():
    assert losses(monitored=True) == losses(monitored=False)


def test_nothing_stays_on_the_model(no_trace):
    model = mlp()
    optimizer = sgd(model)
    with no_trace(model), flopsight.monitor(model, optimizer):
        model(rows(4))
    assert "__call__" not in vars(nn.Sequential)


def test_an_exception_of_the_loop_goes_on_and_what_was_measured_is_handed_over():
    seen, model = [], mlp()
    optimizer = sgd(model)

    with pytest.raises(Trouble), flopsight.monitor(model, optimizer, every=10, to=seen.append):
        one_step(model, optimizer, rows(4))
        model(rows(4))
        raise Trouble

    assert model_flops(seen) == [mlp_flops(4)]
    assert nn.Module.__call__.__module__.startswith("torch")


def test_a_sink_that_raises_says_so_once_and_the_others_get_everything(capsys):
    seen = []

    def fails(record):
        raise Trouble("no disk")

    model = mlp()
    optimizer = sgd(model)
    with flopsight.monitor(model, optimizer, every=1, to=[fails, seen.append]):
        for _ in range(3):
            one_step(model, optimizer, rows(4))

    said = capsys.readouterr().err
    assert len(seen) == 3
    assert said.count("fails failed: Trouble: no disk") == 1


def test_a_sink_that_hangs_holds_nothing_up(capsys):
    forever, model = threading.Event(), mlp()
    optimizer = sgd(model)
    reached = []

    def hangs(record):
        reached.append(record)
        forever.wait()

    with flopsight.monitor(model, optimizer, every=1, to=[hangs]):
        for _ in range(5):
            one_step(model, optimizer, rows(4))

    assert "hangs did not take the last figures in time" in capsys.readouterr().err
    assert len(reached) == 1
    forever.set()


def test_validation_between_steps_is_in_no_step():
    def loop(model, optimizer, live):
        for _ in range(2):
            one_step(model, optimizer, rows(4))
            model.eval()
            with torch.no_grad():
                for _ in range(3):
                    model(rows(100))
            model.train()
        one_step(model, optimizer, rows(4))

    seen, live = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 3
    assert live.summary().whole.validations == 6
    assert live.summary().whole.validation_seconds > 0


def test_a_model_that_never_runs_and_a_loop_without_an_optimizer_give_no_record():
    seen = []
    with flopsight.monitor(mlp(), to=seen.append) as live:
        pass
    assert (seen, live.summary().steps) == ([], 0)
    assert "No step was seen" in str(live.summary())


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        ((3,), {}, "must be a torch.nn.Module, not int"),
        (([],), {}, "empty list"),
        ((mlp(), 3), {}, "optimizer must be a torch.optim.Optimizer, not int"),
        ((mlp(),), {"every": 0}, "every"),
        ((mlp(),), {"to": [3]}, "takes no figures"),
        ((mlp(),), {"to": "run.txt"}, "ends in .jsonl"),
        ((mlp(),), {"to": [dict]}, "hand over an object"),
    ],
)
def test_what_cannot_be_monitored_is_refused_before_the_loop(arguments, options, complaint):
    with pytest.raises(InputError, match=complaint):
        flopsight.monitor(*arguments, **options)


def test_a_step_outside_the_block_is_refused():
    with pytest.raises(StateError, match="inside"):
        flopsight.monitor(mlp()).step()
