"""A rank that waits in vain asks once whether the others came."""

import threading

import pytest

from flopsight.distributed.patience import asking_after


@pytest.fixture(name="one_of_two")
def _one_of_two(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_a_rank_that_waits_long_asks_whether_all_came(one_of_two):
    asked, came = [], threading.Event()

    with asking_after(0.0, lambda line: (asked.append(line), came.set())):
        assert came.wait(10)

    assert len(asked) == 1
    assert asked[0].startswith("flopsight: rank 1 of 2 has been in the model for 0 s. Did every rank call profile()")


def test_a_rank_that_is_done_does_not_ask(one_of_two):
    before = threading.active_count()

    with asking_after(600.0, lambda _line: pytest.fail("it was done")):
        assert threading.active_count() == before + 1

    assert not any(
        isinstance(thread, threading.Timer) and not thread.finished.is_set() for thread in threading.enumerate()
    )


def test_a_process_by_itself_starts_no_clock(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    before = threading.active_count()

    with asking_after(0.0, lambda _line: pytest.fail("there is no other")):
        assert threading.active_count() == before
