"""The page of versions: a row for each run, and a newer release named as such without failing anything."""

import sys
from dataclasses import replace

import matrix
import pytest
from matrix import number, page, passing, releases, result
from tried import Outcome

GOOD = Outcome("2.15.0", "3.11", 1400, (), 2, "", "fine", 90)
BAD = Outcome("2.16.0", "3.11", 1398, ("tests.a::x", "tests.a::y"), 0, "", "marks", 90)
CRASHED = Outcome("2.9.1", "3.11", 0, (), 0, "signal 11", "no report, exit code -11", 9)


def test_a_run_is_fine_only_if_all_pass_nothing_crashes_and_the_doctor_agrees():
    assert [one.fine for one in (GOOD, BAD, CRASHED)] == [True, False, False]
    assert [result(one) for one in (GOOD, BAD, CRASHED)] == [
        "1,400 pass", "1,398 pass, 2 fail", "the interpreter crashed (signal 11)",
    ]  # fmt: skip


def test_the_page_has_a_row_for_each_run_and_marks_a_newer_release():
    text = page([GOOD, BAD], "2.16.0", ("2.9.1", "2.15.0"))

    assert "Every test of the table below passes on torch 2.15 with Python 3.11." in text
    assert "| 2.15.0 | 3.11 | 1,400 pass | fine |" in text
    assert "| 2.16.0 (newer than the list) | 3.11 | 1,398 pass, 2 fail | marks |" in text


def test_the_page_says_which_releases_pass_on_which_python():
    listed = ("2.8.0", "2.9.1", "2.10.0", "2.15.0")
    every = [replace(GOOD, release=release) for release in listed]
    others = [
        replace(GOOD, release=release, python=python) for python in ("3.12", "3.13") for release in ("2.8.0", "2.15.0")
    ]

    assert passing([*every, *others], listed) == (
        "Every test of the table below passes on torch 2.8 to 2.15 with Python 3.11, and on torch 2.8 and 2.15 with Python 3.12 and 3.13."
    )
    assert (
        passing([every[0], CRASHED, *every[2:]], listed)
        == "Every test of the table below passes on torch 2.8, 2.10 and 2.15 with Python 3.11."
    )
    assert passing([CRASHED], listed) == "No release passes every test of the table below."


def test_good_rows_are_kept_and_failed_ones_run_again(monkeypatch, tmp_path):
    monkeypatch.setenv("FLOPSIGHT_TORCH_CACHE", str(tmp_path))
    ran = []

    def tried(release, *_):
        ran.append(release)
        return replace(GOOD if release == "2.15.0" else BAD, release=release)

    monkeypatch.setattr(matrix, "tried", tried)
    rows = [("2.15.0", "python", ("formulas",)), ("2.9.1", "python", ("formulas",))]

    first, second = (matrix.outcomes_of(rows, 2) for _ in range(2))

    assert first == second
    assert sorted(ran) == ["2.15.0", "2.9.1", "2.9.1"]


def test_other_tests_of_a_release_are_another_row(monkeypatch, tmp_path):
    monkeypatch.setenv("FLOPSIGHT_TORCH_CACHE", str(tmp_path))
    ran = []

    def tried(release, tests, *_):
        ran.append(tests)
        return GOOD

    monkeypatch.setattr(matrix, "tried", tried)
    for tests in (("formulas",), ("formulas", "script"), ("formulas",)):
        matrix.outcomes_of([("2.15.0", "python", tests)], 1)

    assert ran == [("formulas",), ("formulas", "script")]


def test_four_releases_run_what_starts_processes_on_our_interpreter():
    wide = [release for release in releases() if "distributed" in matrix.tests_of(release, sys.executable)]

    assert [matrix.short(release) for release in wide] == ["2.6", "2.9", "2.12", "2.15"]
    assert "script" in matrix.tests_of(wide[0], sys.executable)
    assert not {"distributed", "script"} & set(matrix.tests_of(wide[0], "another python"))


def test_releases_compare_as_numbers():
    assert number("2.10.0") > number("2.9.1")


@pytest.mark.parametrize(("failing", "code"), [("2.99.0", 0), (releases()[-1], 1)])
def test_a_newer_release_is_run_and_reported_and_fails_nothing(monkeypatch, tmp_path, capsys, failing, code):
    monkeypatch.setenv("FLOPSIGHT_TORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["matrix.py"])
    monkeypatch.setattr(matrix, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(matrix, "OTHERS", ())
    monkeypatch.setattr(matrix, "newest_release", lambda: "2.99.0")
    monkeypatch.setattr(
        matrix, "tried", lambda release, *_: replace(BAD if release == failing else GOOD, release=release)
    )

    assert matrix.main() == code
    assert f"torch {failing}, Python 3.11: FAILED, 1,398 pass, 2 fail" in capsys.readouterr().out
    assert "| 2.99.0 (newer than the list) |" in (tmp_path / "page.md").read_text()
