"""When memory ends that a thread of the communication library was the last to hold."""

import threading

import pytest
import torch

from flopsight.capture.count.live import Live
from flopsight.capture.model.sites import Site

FLOATS = 256
SIZE = FLOATS * 4


def here(act):
    act()


def in_another_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def peak(let_go, uses):
    """Three buffers, one after the other; the first is a collective's and ends when all are there. Most of them at once."""
    live, site = Live({}), Site("layer")
    first = [torch.empty(FLOATS)]
    live.note(first[0], site, "forward")
    live.lend(first)
    others = []
    for number in (2, 3):
        others.append(torch.empty(FLOATS))
        live.note(others[-1], site, "forward")
        if number == uses:
            live.use(first)
    let_go(first.clear)
    live.note(torch.empty(1), site, "forward")
    return live.footprint().peak // SIZE


@pytest.mark.parametrize(
    ("let_go", "uses", "most"),
    [
        (here, None, 3),  # this thread needed it that long
        (
            in_another_thread,
            None,
            2,
        ),  # another thread was late: the collective was the last use, before the second buffer
        (in_another_thread, 2, 2),  # used once more beside the second buffer, and gone before the third
        (in_another_thread, 3, 3),
    ],
)
def test_a_buffer_that_another_thread_lets_go_late_counts_until_its_last_use(let_go, uses, most):
    assert peak(let_go, uses) == most
