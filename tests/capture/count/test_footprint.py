"""The peak of a step and its curve, from storages that come and go."""

from flopsight.capture.count.footprint import MOST_POINTS, History, chosen, footprint
from flopsight.capture.model.sites import Site


def saw(teeth, width):
    """Storages of growing size, each freed before the next one comes; every width-th is ten times as large."""
    sizes = [1 + i + (10 * teeth if i == width else 0) for i in range(teeth)]
    return sizes, [event for i, size in enumerate(sizes) for event in ((i, size), (i, -size))]


def history(sizes, events, before=()):
    return History(before, events, ["temporaries"] * len(sizes), [None] * len(sizes), {})


def test_a_long_step_keeps_few_points_and_the_exact_peak():
    teeth = 40_000
    sizes, events = saw(teeth, 12_345)

    made = footprint(history(sizes, events))

    assert len(made.curve.at) <= MOST_POINTS
    assert made.peak == made.curve.total[made.curve.highest] == 12_346 + 10 * teeth
    assert (made.curve.at[0], made.curve.at[-1]) == (0, len(events))
    assert made.curve.at[made.curve.highest] == 2 * 12_345 + 1


def test_a_short_step_keeps_every_point():
    sizes, events = saw(3, 1)

    assert footprint(history(sizes, events)).curve.total == (0, 1, 0, 32, 0, 3, 0)


def test_of_a_stretch_the_highest_and_the_lowest_stay():
    totals = [5, 5, 9, 1, 5, 5, 5, 5, 2, 8, 5, 5]

    assert chosen(totals, most=6) == [0, 2, 3, 8, 9, 11]


def test_what_was_there_before_belongs_to_no_module():
    made = footprint(history([7], [], before=[(0, 7)]))

    assert (made.peak, made.rows, made.curve.total) == (7, {}, (7,))


def test_at_the_peak_every_module_has_what_it_made():
    up, down = Site("up", "up"), Site("down", "down")
    events = [(0, 4), (1, 8), (0, -4), (2, 1)]

    made = footprint(History([], events, ["a", "b", "a"], [up, down, up], {0: "forward", 3: "backward"}))

    assert (made.peak, made.kinds, made.rows) == (12, {"a": 4, "b": 8}, {up: 4, down: 8})
    assert made.curve.modules == ("", "up", "down", "down", "up")
    assert made.curve.phases == ("", "forward", "forward", "forward", "backward")
