"""A short call on a CPU is made again by a copy, without marks: the latency shown is the one without us."""

import pytest
import torch
from fake_clock import FakeClock
from torch import nn

from flopsight.loop import copied_call, seen_calls
from flopsight.loop.copied_call import REPEATS, WARM
from flopsight.loop.oneshot import OneShot

ROWS = torch.ones(4, 8)
LAYER = 4 * 8 * 8
TIME = FakeClock()
COPY, REAL = "copy", "real"
AGAIN = [COPY] * (1 + WARM + REPEATS)  # the first with marks, to see whether it calls the same modules


class Takes(nn.Module):
    """A layer that takes its time: its own when the user's model runs, another when a copy does."""

    LOG: list[str] = []  # noqa: RUF012

    def __init__(self, real, copy):
        super().__init__()
        self.layer = nn.Linear(8, 8, bias=False)
        self.me, self.real, self.copy = id(self), real, copy

    def forward(self, x):
        if not x.is_meta and x.untyped_storage().device.type != "meta":
            mine = id(self) == self.me
            self.LOG.append(REAL if mine else COPY)
            TIME.pass_by(self.real if mine else self.copy)
        return self.layer(x)


def shot(model, *args, times=1):
    Takes.LOG.clear()
    TIME.seconds = 0.0
    watched = OneShot(model, TIME.clock)
    watched.start()
    for _ in range(times):
        model(*(args or (ROWS,)))
    watched.stop()
    return watched.profile


def test_the_latency_shown_is_that_of_the_call_without_marks():
    profile = shot(Takes(real=0.003, copy=0.002))

    assert Takes.LOG == [REAL, *AGAIN]
    assert profile.latency == pytest.approx(0.002)
    assert profile.timing.distortion == pytest.approx(1.5)
    assert profile.macs == LAYER


def test_the_modules_add_up_to_the_latency_shown():
    profile = shot(nn.Sequential(Takes(real=0.001, copy=0.001), Takes(real=0.003, copy=0.001)))

    assert profile.latency == profile.root.latency == pytest.approx(0.002)
    assert profile["0"].latency == pytest.approx(0.0005)  # a quarter, as in the call itself
    assert profile["1"].latency == pytest.approx(0.0015)


@pytest.mark.parametrize("thousandth", (15, 30, 39))
def test_the_root_takes_exactly_the_latency_shown(thousandth):
    """Also where the product and the quotient of two times would be rounded to another number."""
    profile = shot(Takes(real=thousandth / 1000, copy=thousandth / 3000))

    assert profile.root.latency == profile.latency


def test_a_copy_that_is_slower_shows_nothing():
    profile = shot(Takes(real=0.002, copy=0.003))

    assert profile.latency == pytest.approx(0.002)
    assert profile.timing.distortion == 1.0


def test_a_long_call_is_not_made_again():
    profile = shot(Takes(real=0.05, copy=0.02))

    assert Takes.LOG == [REAL]
    assert (profile.latency, profile.timing.distortion) == (0.05, None)


def test_calls_are_made_again_until_they_have_shown_what_we_cost(monkeypatch):
    monkeypatch.setattr(seen_calls, "ENOUGH", 0.003)

    profile = shot(Takes(real=0.003, copy=0.002), times=3)

    assert Takes.LOG == [REAL, *AGAIN, REAL, *AGAIN, REAL]
    assert profile.latency == pytest.approx(3 * 0.002)


def test_what_marks_cost_a_short_call_is_not_taken_off_a_long_one():
    model = Takes(real=0.1, copy=0.002)
    watched = OneShot(model, TIME.clock)
    watched.start()
    model(ROWS)
    model.real = 0.006
    model(ROWS)
    watched.stop()

    assert watched.profile.latency == watched.profile.root.latency == pytest.approx(0.1 + 0.002)
    assert watched.profile.timing.distortion == pytest.approx(3.0)


def test_a_part_that_is_called_by_itself_is_made_again_by_itself():
    model = nn.Sequential(Takes(real=0.003, copy=0.002), Takes(real=1.0, copy=1.0))
    watched = OneShot(model, TIME.clock)
    watched.start()
    model[0](ROWS)
    watched.stop()

    assert watched.profile.latency == watched.profile["0"].latency == pytest.approx(0.002)


class Changes(Takes):
    """A call that changes whatever it can reach."""

    def __init__(self, change):
        super().__init__(real=0.003, copy=0.002)
        self.register_buffer("steps", torch.zeros(100))
        self.held, self.change = Held(), change

    def forward(self, x, *more):
        self.change(self, *more)
        return super().forward(x)


class Held:
    """An object of the user's, which the copy has one of its own of."""

    seen = 0


def _draw(_model):
    torch.rand(3)


def _step(model):
    model.steps += 1


def _see(model):
    model.held.seen += 1


def _replace(model):
    model.layer.weight.data = model.layer.weight.data * 2


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (_draw, lambda _model: torch.get_rng_state()),
        (_step, lambda model: model.steps.clone()),
        (_see, lambda model: torch.tensor(model.held.seen)),
        (_replace, lambda model: model.layer.weight.detach().clone()),
    ],
)
def test_making_a_call_again_leaves_no_trace(change, state):
    torch.manual_seed(0)
    plain = Changes(change)
    torch.manual_seed(0)
    watched = Changes(change)

    torch.manual_seed(1)
    plain(ROWS)
    expected = state(plain)
    torch.manual_seed(1)
    shot(watched)

    assert Takes.LOG == [REAL, *AGAIN]
    assert torch.equal(state(watched), expected)


def test_an_input_that_the_call_fills_is_filled_once():
    log = []

    shot(Changes(lambda _, log: log.append(1)), ROWS, log)

    assert Takes.LOG == [REAL, *AGAIN]
    assert log == [1]


def test_a_call_that_writes_into_parameters_is_not_made_again():
    def write(model):
        with torch.no_grad():
            model.layer.weight.add_(1)

    model = Changes(write)
    before = model.layer.weight.detach().clone()
    profile = shot(model)

    assert Takes.LOG == [REAL]
    assert torch.equal(model.layer.weight, before + 1)
    assert profile.latency == pytest.approx(0.003)


def test_a_copy_that_takes_another_path_shows_nothing():
    class Once(nn.Module):
        """Calls its second part in the first call only; a copy has what the buffer holds after that call."""

        def __init__(self):
            super().__init__()
            self.one, self.two = Takes(real=0.002, copy=0.001), Takes(real=0.002, copy=0.001)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return self.two(self.one(x)) if self.calls.item() == 1 else self.one(x)

    profile = shot(Once())

    assert profile.macs == 2 * LAYER
    assert Takes.LOG == [REAL, REAL, COPY]
    assert profile.latency == pytest.approx(0.004)


def test_a_copy_that_raises_shows_nothing():
    class Alone(Takes):
        def forward(self, x):
            output = super().forward(x)
            if self.LOG[-1] == COPY:
                raise ValueError("not me")
            return output

    assert shot(Alone(real=0.003, copy=0.002)).latency == pytest.approx(0.003)
    assert Takes.LOG == [REAL, COPY]


def test_a_call_with_much_to_copy_is_not_made_again(monkeypatch):
    monkeypatch.setattr(copied_call, "LARGEST", ROWS.nbytes - 1)

    assert shot(Takes(real=0.003, copy=0.002)).latency == pytest.approx(0.003)
    assert Takes.LOG == [REAL]
