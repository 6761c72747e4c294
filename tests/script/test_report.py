"""What becomes of a profile: files, text and complaints; nothing that fails here reaches the script."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import lenet, oddities

from flopsight.errors import InputError
from flopsight.files.store import load
from flopsight.progress import begin_line
from flopsight.results.world import World
from flopsight.script.output import Delivery


def report(folder, **options):
    stream = io.StringIO()
    return Delivery(folder / "p.json", stream=stream, **options), stream


def test_a_profile_is_saved_and_shown(tmp_path):
    ours, stream = report(tmp_path)

    ours.deliver(lenet())

    assert load(tmp_path / "p.json").macs == lenet().macs
    assert stream.getvalue().startswith("\nLeNet"), "a script's line may still be open"
    assert stream.getvalue().splitlines()[-1] == f"flopsight: Saved {tmp_path / 'p.json'}"


class Terminal(io.StringIO):
    """A terminal's screen as lines: text that reaches the last column goes on below when more of it comes."""

    columns = 80

    def isatty(self):
        return True

    def screen(self):
        lines, at = [""], 0
        for sign in self.getvalue():
            if sign == "\n":
                lines, at = [*lines, ""], 0
            elif sign == "\r":
                at = 0
            else:
                if at == self.columns:
                    lines, at = [*lines, ""], 0
                lines[-1] = lines[-1][:at] + sign + lines[-1][at + 1 :]
                at += 1
        return lines


@pytest.mark.parametrize("already", ["", "  50%|#####     |", "x", "x" * 79, "x" * 80])
def test_a_report_begins_on_a_line_of_its_own_without_an_empty_one(already, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    terminal.write(already)

    begin_line(terminal)
    terminal.write("ours")

    assert [line.rstrip() for line in terminal.screen()] == [*([already.rstrip()] if already else []), "ours"]


def test_rank_1_of_two_saves_under_its_own_name_and_is_silent(tmp_path):
    ours, stream = report(tmp_path)

    ours.deliver(replace(lenet(), world=World(size=2, rank=1)))

    assert [path.name for path in tmp_path.iterdir()] == ["p-rank1.json"]
    assert stream.getvalue() == ""


def test_a_failure_is_one_line_and_goes_no_further(tmp_path):
    ours, stream = report(tmp_path)

    ours.excuse(ZeroDivisionError("of all things"))

    assert stream.getvalue() == "flopsight: Profiling failed: ZeroDivisionError: of all things\n"


def test_a_file_that_cannot_be_written_any_more_is_named(tmp_path):
    stream = io.StringIO()
    ours = Delivery(tmp_path / "gone" / "p.json", stream=stream)
    (tmp_path / "gone").write_text("a file where the folder was to be")

    ours.deliver(lenet())

    assert f"{tmp_path / 'gone' / 'p.json'} cannot be written" in stream.getvalue()


def test_a_broken_budget_and_an_unknown_op_are_said(tmp_path):
    ours, stream = report(tmp_path, budgets={"params": 1}, strict=True)

    ours.deliver(oddities())

    failed = [line for line in stream.getvalue().splitlines() if "FAILED" in line]
    assert len(failed) == 2
    assert "over the budget of 1" in failed[0]
    assert "ops are not counted" in failed[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": Path("p.txt")}, "must end in .json"),
        ({"path": Path("p.trace.json")}, "flopsight profile ... -o p.trace.json"),
        ({"path": Path("p.json"), "formats": ("treee",)}, "'tree'"),
        ({"path": Path("p.json"), "formats": ("tree", "trace")}, "no timeline for a trace"),
        ({"path": Path("p.json"), "budgets": {"flps": "8G"}}, "Did you mean 'flops'"),
        ({"path": Path("p.json"), "budgets": {"flops": "8 apples"}}, "'8 apples' is not a quantity"),
        ({"path": Path("p.json"), "text_file": str(Path(__file__).parent)}, "script cannot be written: it is a folder"),
        ({"path": Path("p.json"), "text_file": f"{__file__}/text.txt"}, "is not a folder that it can be written in"),
        ({"path": Path(f"{__file__}/p.json")}, "is not a folder that it can be written in"),
    ],
)
def test_what_cannot_be_delivered_is_refused_at_once(options, said):
    with pytest.raises(InputError, match=said):
        Delivery(**options)


def test_the_page_is_named_beside_the_profile(tmp_path):
    ours, stream = report(tmp_path, formats=("html",))

    ours.deliver(lenet())

    assert stream.getvalue() == f"flopsight: Saved {tmp_path / 'p.json'} and {tmp_path / 'p.html'}\n"
    assert (tmp_path / "p.html").exists()


def test_a_script_that_closes_the_stream_goes_on_and_has_its_profile(tmp_path):
    ours, stream = report(tmp_path)
    stream.close()

    ours.deliver(lenet())
    ours.say("This is heard by nobody.")

    assert load(tmp_path / "p.json").macs == lenet().macs
