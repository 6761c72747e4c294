"""A step that is timed as a whole is rehearsed by a copy of the model, which changes nothing of the user's.

The rehearsal is for devices that wait for the host. Here the CPU plays such a device.
"""

import pytest
import torch
from fake_clock import FakeClock
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from flopsight.loop import copied_call, oneshot
from flopsight.loop.oneshot import OneShot

ROWS = torch.ones(4, 8)
ON_META, REHEARSED, REAL = "meta", "rehearsed", "real"
ALL = [ON_META, *[REHEARSED] * copied_call.REHEARSALS, REAL]


@pytest.fixture(autouse=True)
def cpu_as_a_device(monkeypatch):
    monkeypatch.setattr(oneshot, "HOSTS", ())


class Logs(nn.Module):
    """A layer that says who runs it: the twin, the model itself or a copy of it."""

    LOG: list[str] = []  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.me = id(self)

    def forward(self, x):
        on_meta = self.layer.weight.untyped_storage().device.type == "meta"
        self.LOG.append(ON_META if on_meta else REAL if id(self) == self.me else REHEARSED)
        return self.layer(x)


def runs(model, rows=ROWS):
    """Who ran in one watched call of a model."""
    Logs.LOG.clear()
    watched = OneShot(model, FakeClock().clock)  # by a real clock, a busy machine makes a call long
    watched.start()
    model(rows)
    watched.stop()
    assert watched.profile.macs >= ROWS.numel() * 8
    return list(Logs.LOG)


def test_the_call_is_counted_then_rehearsed_then_made():
    assert runs(Logs()) == ALL


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")])
def test_every_mode_has_its_rehearsal(mode):
    with mode():
        assert runs(Logs()) == ALL


def test_nothing_is_compiled_for_a_rehearsal():
    def backend(graph, _inputs):
        compiled.append(graph)
        return graph.forward

    class Compiled(Logs):
        def forward(self, x):
            return super().forward(self.twice(x))

        @torch.compile(backend=backend)
        def twice(self, x):
            return x * (2 if id(self) == self.me else 3)

    model, compiled = Compiled(), []
    model(ROWS)

    assert runs(model) == ALL
    assert len(compiled) == 1


def test_the_host_s_own_models_need_no_rehearsal(monkeypatch):
    monkeypatch.undo()

    assert runs(Logs())[:2] == [REAL, ON_META]


class Writes(Logs):
    """A model that writes into what `where` gives, by adding one."""

    def __init__(self, where):
        super().__init__()
        self.register_buffer("position", torch.zeros((), dtype=torch.long))
        self.cache = torch.zeros(3)
        self.seen = []
        self.where = where

    def forward(self, x):
        with torch.no_grad():
            self.where(self, x).add_(1)
        self.seen.append(1)
        return super().forward(x)


@pytest.mark.parametrize(
    "where",
    [
        lambda m, _: m.layer.weight,
        lambda m, _: m.layer.weight.data,
        lambda m, _: m.layer.weight.detach(),
        lambda m, _: m.layer.weight.view(-1)[:3],
        lambda m, _: m.layer.bias.data,
    ],
)
def test_a_model_that_writes_into_its_parameters_is_not_rehearsed(where):
    model = Writes(where)
    before = where(model, None).clone()

    assert runs(model) == [ON_META, REAL]
    assert torch.equal(where(model, None), before + 1)


@pytest.mark.parametrize("where", [lambda m, _: m.position, lambda m, _: m.cache, lambda _, x: x])
def test_whatever_else_the_copy_writes_into_is_its_own(where):
    model, rows = Writes(where), torch.ones(4, 8)
    before = where(model, rows).clone()

    assert runs(model, rows) == ALL
    assert torch.equal(where(model, rows), before + 1)
    assert model.seen == [1]


def test_a_weight_that_the_model_replaces_is_replaced_once():
    class Replaces(Logs):
        def forward(self, x):
            self.layer.weight.data = self.layer.weight.data * 2
            return super().forward(x)

    model = Replaces()
    before = model.layer.weight.detach().clone()

    assert runs(model) == ALL
    assert torch.equal(model.layer.weight, 2 * before)


def test_a_weight_that_is_written_into_and_then_replaced_is_not_touched_by_a_rehearsal():
    class Moves(Logs):
        def forward(self, x):
            weight = self.layer.weight
            weight.data.mul_(2)
            weight.data = weight.data.clone()
            return super().forward(x)

    model = Moves()
    weight, before = model.layer.weight.data, model.layer.weight.detach().clone()

    assert runs(model) == [ON_META, REAL]
    assert torch.equal(weight, 2 * before)


def test_gradients_that_a_forward_makes_are_made_once():
    class Trains(Logs):
        def forward(self, x):
            output = super().forward(x)
            output.sum().backward()
            return output

    model = Trains()

    assert runs(model) == ALL
    assert torch.equal(model.layer.bias.grad, torch.full((8,), 4.0))  # one for every row


def test_a_rehearsal_leaves_no_trace():
    def make():
        torch.manual_seed(0)
        return nn.Sequential(Logs(), nn.BatchNorm1d(8), nn.Dropout(0.5))

    plain, watched = make(), make()
    torch.manual_seed(1)
    expected, state = plain(ROWS), torch.get_rng_state()
    torch.manual_seed(1)
    watcher = OneShot(watched)
    watcher.start()
    found = watched(ROWS)
    watcher.stop()

    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(watched.buffers(), plain.buffers(), strict=True))
    found.sum().backward()
    expected.sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(watched.parameters(), plain.parameters(), strict=True))


def test_no_weight_that_the_rehearsal_cast_saves_the_model_its_own_cast():
    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, func, _types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def casts(call):
        seen.clear()
        with Ops(), torch.autocast("cpu", dtype=torch.bfloat16):
            call()
            assert torch.is_autocast_cache_enabled()
        return seen.count(torch.ops.aten._to_copy.default)

    model, seen = Logs(), []

    assert casts(lambda: model(ROWS)) == 3  # the rows, the weight, the bias
    assert casts(lambda: runs(model)) == 3
    assert REHEARSED in Logs.LOG


def test_a_container_that_the_call_fills_is_filled_once():
    class Fills(Logs):
        def forward(self, x, log):
            log.append(1)
            return super().forward(x)

    log = []
    Logs.LOG.clear()
    watched = OneShot(model := Fills(), FakeClock().clock)
    watched.start()
    model(ROWS, log)
    watched.stop()

    assert Logs.LOG == ALL
    assert log == [1]


def test_a_model_with_much_to_copy_goes_without(monkeypatch):
    monkeypatch.setattr(copied_call, "LARGEST", ROWS.nbytes - 1)

    assert runs(Logs()) == [ON_META, REAL]


def test_a_model_that_talks_to_other_processes_goes_without():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert runs(Logs()) == [ON_META, REAL]
    finally:
        torch.distributed.destroy_process_group()


def test_what_the_rehearsal_raises_nobody_hears_of():
    class Raises(Logs):
        def forward(self, x):
            output = super().forward(x)
            if self.LOG[-1] is REHEARSED:
                raise ValueError
            return output

    assert runs(Raises()) == [ON_META, REHEARSED, REAL]


def test_every_rehearsal_begins_where_the_call_will():
    class Walks(Writes):
        def forward(self, x):
            begun.append((int(self.position), len(self.seen)))
            return super().forward(x)

    begun = []

    assert runs(Walks(lambda m, _: m.position)) == ALL
    assert begun == [(0, 0)] * len(ALL)


def test_a_long_call_is_rehearsed_once():
    class Takes(Logs):
        def forward(self, x):
            time.pass_by(1.0)
            return super().forward(x)

    model, time = Takes(), FakeClock()
    Logs.LOG.clear()
    watched = OneShot(model, time.clock)
    watched.start()
    model(ROWS)
    watched.stop()

    assert Logs.LOG == [ON_META, REHEARSED, REAL]
    assert watched.profile.latency == 1.0
