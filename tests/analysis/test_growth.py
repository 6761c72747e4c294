"""Constant, linear and quadratic parts, from points that are computed here."""

import pytest

from flopsight.analysis.growth import fit_growth, module_growth, own_flops
from flopsight.results.costs import Cost, Phases
from flopsight.results.node import Node
from flopsight.results.profile import Profile


def test_the_parts_of_a_polynomial_are_found_at_the_largest_value():
    values = [2048, 4096, 8192, 32768]

    growth = fit_growth(values, [7e12 + 3e9 * x + 5e5 * x * x for x in values])

    assert growth.exact
    assert growth.constant == pytest.approx(7e12)
    assert growth.linear == pytest.approx(3e9 * 32768)
    assert growth.quadratic == pytest.approx(5e5 * 32768**2)


def test_a_part_that_is_not_there_is_zero():
    growth = fit_growth([1, 8, 64], [5, 40, 320])

    assert (growth.constant, growth.quadratic) == (0, 0)
    assert growth.linear == pytest.approx(320)


def test_two_values_give_a_line():
    growth = fit_growth([2, 4], [10, 16])

    assert (growth.constant, growth.linear, growth.quadratic) == pytest.approx((4, 12, 0))


def test_two_points_are_never_read_as_negative_work():
    # 3 x + 2 x^2 at 4 and 8: a line through 44 and 152 would begin at -64
    growth = fit_growth([4, 8], [44, 152])
    assert (growth.constant, growth.linear, growth.quadratic) == pytest.approx((0, 24, 128))
    assert not growth.exact
    # 5 x^2: one part, which the second point confirms
    assert fit_growth([4, 8], [80, 320]).exact
    # x^3 lies on no curve without a negative part, nor does what shrinks
    assert not fit_growth([4, 8], [64, 512]).plausible
    assert not fit_growth([4, 8], [64, 32]).plausible
    # a window of 2 over x steps: 2 x - 4 is negative at 0, and a third point confirms it
    assert fit_growth([4, 8, 16], [4, 12, 28]).plausible


def test_what_is_no_polynomial_says_so():
    assert not fit_growth([1, 2, 3, 4], [2, 4, 8, 16]).exact


def test_a_law_is_claimed_only_if_a_point_beyond_those_that_fix_it_confirms_it():
    cubic = [x**3 for x in (1, 2, 4)]
    assert fit_growth([1, 2, 4], cubic).on_curve
    assert not fit_growth([1, 2, 4], cubic).exact  # three points lie on a parabola in any case
    assert not fit_growth([1, 2, 4, 8], [x**3 for x in (1, 2, 4, 8)]).on_curve
    assert not fit_growth([2, 4], [10, 16]).exact
    assert fit_growth([2, 4, 8], [10, 16, 28]).exact  # 4 + 3 x, a line through three points
    assert fit_growth([1, 2, 4], [3, 12, 48]).exact  # 3 x^2: one part, three points
    assert fit_growth([2, 4], [5, 5]).exact


def test_modules_that_differ_by_a_number_are_one_row():
    def profile(x):
        layers = tuple(
            Node(f"layers.{n}", str(n), "L", children=(Node(f"layers.{n}.mlp", "mlp", "M", own=Phases(Cost(flops=x))),))
            for n in range(3)
        )
        return Profile(
            Node("", "", "Net", own=Phases(Cost(flops=5)), children=(Node("layers", "layers", "L", children=layers),))
        )

    growths = module_growth([1, 2], [profile(1), profile(2)])

    assert own_flops(profile(2)) == {"": 5, "layers.*.mlp": 6}
    assert list(growths) == ["layers.*.mlp", ""]
    assert growths[""].constant == pytest.approx(5)
    assert growths["layers.*.mlp"].linear == pytest.approx(6)
