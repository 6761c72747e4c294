"""A model that prints in its forward prints once a call, however its call is counted."""

import threading

import pytest
import torch
from torch import nn

from flopsight import FlopsProfiler
from flopsight.loop.quiet import quiet

X = torch.ones(4, 8)


class Talks(nn.Linear):
    """Prints its input, and then does what a subclass adds."""

    def __init__(self):
        super().__init__(8, 2, bias=False)

    def forward(self, x):
        print("row", x[0, :2])
        return super().forward(self.changed(x))

    def changed(self, x):
        return x


class WithoutTwin(Talks):
    def changed(self, x):
        return torch.from_numpy(x.numpy() * 1) if x.sum() > 0 else x


class Raises(Talks):
    def changed(self, x):
        raise ValueError("a bad batch")


def called(model):
    try:
        model(X)
    except ValueError as problem:
        print(problem)


@pytest.mark.parametrize("kind", [Talks, WithoutTwin, Raises])
def test_a_profiled_call_prints_what_a_plain_one_prints(kind, capsys):
    model = kind()
    called(model)
    plain = capsys.readouterr()

    prof = FlopsProfiler(model)
    prof.start_profile()
    called(model)
    prof.stop_profile()

    assert capsys.readouterr() == plain
    assert prof.get_total_macs() == (0 if kind is Raises else 4 * 8 * 2)


def test_other_threads_print_meanwhile(capsys):
    with quiet():
        print("ours")
        other = threading.Thread(target=print, args=("theirs",))
        other.start()
        other.join()

    assert capsys.readouterr().out == "theirs\n"


def test_a_process_without_stdout_is_left_alone(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)

    with quiet():
        print("nowhere")
