"""A count on meta leaves no meta tensor in tables outside the model: the next real forward would find it there."""

import functools

import pytest
import torch
from torch import nn

import flopsight

TOKENS, WIDTH = 3, 4
TABLE = None
BY_LENGTH = {}
RECENT = []


def made(length):
    return torch.arange(length).float()[:, None] * torch.ones(WIDTH)


def from_a_global(length):
    global TABLE  # noqa: PLW0603
    if TABLE is None or TABLE.shape[0] < length:
        TABLE = made(length)
    return TABLE[:length]


def from_a_dictionary(length):
    if length not in BY_LENGTH:
        BY_LENGTH[length] = {"angles": made(length)}
    return BY_LENGTH[length]["angles"]


def from_a_list(length):
    RECENT.append(made(length))
    return RECENT[-1]


remembered = functools.cache(made)
recently = functools.lru_cache(maxsize=2)(made)


class Rotary(nn.Module):
    """A projection with positions from a table that is made once."""

    by_class = {}  # noqa: RUF012

    def __init__(self, table):
        super().__init__()
        self.project, self.table = nn.Linear(WIDTH, WIDTH), table

    def forward(self, x):
        return self.project(x) + self.table(x.shape[1])


def from_a_class(length):
    if length not in Rotary.by_class:
        Rotary.by_class[length] = made(length)
    return Rotary.by_class[length]


TABLES = [from_a_global, from_a_dictionary, from_a_list, from_a_class, remembered, recently]


@pytest.fixture(autouse=True)
def _empty():
    yield
    globals()["TABLE"] = None
    for container in (BY_LENGTH, RECENT, Rotary.by_class):
        container.clear()
    remembered.cache_clear()
    recently.cache_clear()


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled before"])
@pytest.mark.parametrize("table", TABLES, ids=range(len(TABLES)))
def test_a_real_forward_runs_after_a_count_on_meta(table, filled):
    model, x = Rotary(table), torch.randn(2, TOKENS, WIDTH)
    if filled:
        model(x[:, :2])
    right = model.project(x) + made(TOKENS)

    profile = flopsight.count(model, (x,), on="meta")

    assert profile.macs == 2 * TOKENS * WIDTH * WIDTH
    assert torch.equal(model(x), right)


def test_what_a_table_held_before_stays():
    model = Rotary(from_a_dictionary)
    model(torch.randn(2, 2, WIDTH))
    held = BY_LENGTH[2]

    flopsight.count(model, (torch.randn(2, TOKENS, WIDTH),), on="meta")

    assert BY_LENGTH == {2: held}
    assert BY_LENGTH[2] is held
