"""The roles of a window's steps, without a loop."""

import pytest

from flopsight.loop.schedule import MOST_MOVES, Role, Schedule

NONE, LEAD, COUNT, TIME, TRACE = Role.NONE, Role.LEAD, Role.COUNT, Role.TIME, Role.TRACE


def roles(schedule, steps):
    return [schedule.role(step) for step in range(steps)]


def test_steps_2_to_5_are_counted_timed_and_traced_after_a_lead():
    assert roles(Schedule(range(2, 6)), 8) == [NONE, LEAD, COUNT, TIME, TIME, TRACE, NONE, NONE]


def test_a_window_of_one_step_is_followed_by_one_that_is_timed():
    assert roles(Schedule([3]), 6) == [NONE, NONE, LEAD, COUNT, TIME, NONE]


def test_a_window_of_two_steps_has_no_second_timed_step_to_trace():
    assert roles(Schedule([1, 2]), 4) == [LEAD, COUNT, TIME, NONE]


def test_a_window_from_step_0_has_no_lead():
    assert roles(Schedule(range(3)), 4) == [COUNT, TIME, TRACE, NONE]


@pytest.mark.parametrize(("steps", "last"), [(range(2, 6), 5), ([3], 4)])
def test_it_is_over_after_its_last_timed_step(steps, last):
    schedule = Schedule(steps)

    assert [schedule.is_over(step) for step in (last, last + 1)] == [False, True]


def test_passing_over_the_counted_step_moves_the_whole_window():
    schedule = Schedule(range(2, 5))

    assert schedule.pass_over(2, "it validates")

    assert (schedule.steps, schedule.asked, schedule.moves) == ((3, 4, 5), 2, ["it validates"])
    assert roles(schedule, 7)[3:] == [COUNT, TIME, TRACE, NONE]


def test_passing_over_a_timed_step_adds_one_at_the_end():
    schedule = Schedule(range(2, 5))

    assert schedule.pass_over(3, "it validates")

    assert schedule.steps == (2, 3, 4)
    assert roles(schedule, 7)[2:] == [COUNT, NONE, TIME, TRACE, NONE]


def test_after_too_many_unlike_steps_they_are_taken_as_they_are():
    schedule = Schedule([2])

    passed = [schedule.pass_over(2 + step, "it validates") for step in range(MOST_MOVES + 2)]

    assert passed == [True] * MOST_MOVES + [False, False]
    assert schedule.counted == 2 + MOST_MOVES
