"""A counter watches and a tape holds: tapes of one model add up, row by row."""

from __future__ import annotations

import torch
from torch import nn

from flopsight.capture.count.dispatch import Counter
from flopsight.capture.count.tape import Tape
from flopsight.capture.model.sites import Sites
from flopsight.engine.run_profile import DEFAULTS, build_profile
from flopsight.formulas import known
from flopsight.results.caveats import Note


def taped(model: nn.Module, rows: int) -> Tape:
    counter = Counter(model, known)
    with counter:
        model(torch.ones(rows, 8))
    return counter.tape


def test_tapes_of_a_model_and_of_its_copy_add_up_by_path() -> None:
    model, copy = (nn.Sequential(nn.Linear(8, 2), nn.ReLU()) for _ in range(2))
    tape = taped(model, 4)

    tape.add(taped(copy, 3))

    profile = build_profile(tape, Sites(model), DEFAULTS)
    assert profile["0"].calls == 2
    assert profile["0"].macs == (4 + 3) * 8 * 2
    assert {call.module: call.calls for call in tape.module_calls()} == {"": 2, "0": 2, "1": 2}


def test_a_doubt_that_two_tapes_share_is_said_once() -> None:
    one, other = Tape(), Tape()
    for tape in (one, other):
        tape.doubt(Note("Rows are few."))

    one.add(other)

    assert one.caveats == [Note("Rows are few.")]


def test_an_exception_is_placed_where_it_was_first_seen() -> None:
    model = nn.Sequential(nn.Linear(8, 2))
    counter = Counter(model, known)
    problem = None
    try:
        with counter:
            model(torch.ones(4, 7))
    except RuntimeError as raised:
        problem = raised

    assert problem is not None
    assert counter.tape.where_raised(problem) == ("0", "forward")
