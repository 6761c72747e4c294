"""What is being done: a bar on a terminal, lines where they are asked for, nothing in a pipe."""

import io
import re

import pytest
import torch
from fake_clock import FakeClock

import flopsight
from flopsight.progress import COUNTING, Bar, Progress, by_points


class Shown:
    """A display that remembers."""

    def __init__(self):
        self.drawn, self.closed = [], False

    def draw(self, text, seconds):
        self.drawn.append((round(seconds, 3), text))

    def close(self):
        self.closed = True


@pytest.fixture
def shown():
    return Shown()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def readable(text):
    return [line.strip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)) if line.strip()]


def test_a_phase_is_shown_with_the_seconds_that_passed(shown):
    clock = FakeClock()
    with Progress(display=shown, clock=clock.read) as say:
        say("warming up", timed=True)
        clock.pass_by(2)
        say("tracing ops", timed=True)

    assert shown.drawn == [(0, "warming up"), (2, "tracing ops")]
    assert shown.closed


def test_runs_that_are_timed_are_drawn_seldom(shown):
    clock = FakeClock()
    with Progress(display=shown, clock=clock.read) as say:
        for run in range(1, 65):
            say(f"timing, run {run} of 64", timed=True)
            clock.pass_by(1 / 64)

    # a second in all, half a second apart
    assert [text for _, text in shown.drawn] == ["timing, run 1 of 64", "timing, run 33 of 64"]


def test_what_goes_wrong_takes_the_bar_away(shown):
    with pytest.raises(ZeroDivisionError), Progress(display=shown) as say:
        say("counting", timed=True)
        raise ZeroDivisionError

    assert shown.closed


def test_in_a_pipe_nothing_is_said(capsys):
    with Progress() as say:
        say("counting")

    assert capsys.readouterr() == ("", "")


def test_in_a_pipe_a_line_a_phase_is_said_on_request(capsys):
    with Progress(asked=True) as say:
        say("counting")
        say("timing, run 1 of 2", timed=True)
        say("timing, run 2 of 2", timed=True)
        say("tracing ops", timed=True)

    out, err = capsys.readouterr()
    assert not out
    assert [line.split("  ")[-1] for line in err.splitlines()] == ["counting", "timing", "tracing ops"]


def test_a_terminal_shows_a_bar_and_wipes_it(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with Progress(display=Bar()) as say:
        say("timing, run 2 of 4", timed=True)

    assert any(re.match(r"0 s .+ timing, run 2 of 4$", line) for line in readable(stream.getvalue()))
    assert stream.getvalue().endswith("\x1b[2K"), "the line is wiped"


def test_a_name_in_brackets_is_no_style(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with Progress(display=Bar()) as say:
        say("building [red]model[/]", timed=True)

    assert any("[red]model[/]" in line for line in readable(stream.getvalue()))


def test_points_of_a_sweep_are_counted_from_one_with_the_time_left(shown):
    with Progress(display=shown) as say:
        told = by_points(say, timed=True)
        told(0, 12, None)
        told(3, 12, 27.4)

    assert [text for _, text in shown.drawn] == ["point 1 of 12", "point 4 of 12, 27 s left"]


def test_profile_says_its_phases_where_it_is_asked_to(capsys):
    flopsight.profile(torch.nn.Linear(2, 2), (torch.ones(1, 2),), repeats=2, progress=True)

    said = [line.split("  ")[-1] for line in capsys.readouterr().err.splitlines()]
    assert said[:3] == [COUNTING, "warming up", "timing"]


def test_a_function_is_called_with_each_phase():
    said = []
    flopsight.profile(torch.nn.Linear(2, 2), (torch.ones(1, 2),), repeats=2, progress=said.append)

    assert said[0] == COUNTING
    assert "timing, run 2 of 2" in said


def test_a_sweep_says_its_points_where_it_is_asked_to(capsys):
    flopsight.sweep(lambda width: (torch.nn.Linear(2, width), torch.ones(1, 2)), {"width": [1, 2]}, progress=True)

    assert "point 1 of 2" in capsys.readouterr().err
