"""The oldest and the newest release of torch that we list: counts are right, and the interpreter stays alive."""

import pytest
from matrix import releases
from tried import LANE_TESTS, read_report, tried

LIMIT = 300
"""Seconds for the tests of one release, downloads not counted."""


@pytest.mark.parametrize("release", [releases()[0], releases()[-1]])
def test_everything_passes_on(release):
    outcome = tried(release, LANE_TESTS, limit=LIMIT)

    assert (outcome.crash, outcome.failed, outcome.doctor) == ("", (), "fine")
    assert outcome.passed > 500


def test_a_report_is_read_test_by_test():
    report = (
        '<testsuite><testcase classname="tests.a" name="x" time="0.1" /><testcase classname="tests.a" name="y" time="0">'
        '<failure message="m">text</failure></testcase><testcase classname="tests.b" name="z" time="0"><skipped/></testcase>'
        '<testcase classname="tests.a" name="x2" time="0"><error message="m"/></testcase></testsuite>'
    )

    assert read_report(report) == (1, ("tests.a::y", "tests.a::x2"), 1)
