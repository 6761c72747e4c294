"""Whatever a model calls its modules, no view hands a control character to the terminal, the browser or a spreadsheet."""

import csv
import io
from dataclasses import replace

import pytest
from profiles import lenet, module, oddities, rooted
from rich.console import Console

from flopsight.analysis.compare import compare
from flopsight.cli.ops import used_lines
from flopsight.files.printable import one_line, printable
from flopsight.render import prepare, render
from flopsight.render.formats import FORMATS, PICTURES
from flopsight.results.caveats import Note
from flopsight.results.costs import OpRow
from flopsight.results.coverage import Coverage, UnknownOp
from flopsight.results.profile import Environment, Profile

EVIL = "a\x1b[31mred\x07\r\u202e\x9b2J\u2028\ud800b"
"""A colour, a bell, a return, a turn of the writing direction, an 8-bit escape, a line separator, half a character."""
SHOWN = r"a\x1b[31mred\x07\r\u202e\x9b2J\u2028\ud800b"
VERBATIM = ("json", "trace")


def hostile():
    """Every text of a profile that a model or its author decides."""
    row = OpRow(f"my.{EVIL}", "forward", 1, status="unknown")
    inner = module(f"{EVIL}\n", EVIL, flops=3, extra=f"{EVIL}\nsecond", ops=(row,), calls=2)
    return Profile(
        rooted(module("", EVIL, inner, latency=1.0)),
        coverage=Coverage(unknown={f"my.{EVIL}": UnknownOp(1, (EVIL,), 4, f"because\n{EVIL}")}),
        environment=Environment(torch=EVIL, device=EVIL, device_name=EVIL, dtype=EVIL, made=EVIL),
        caveats=(Note(f"first\nsecond {EVIL}"),),
        at_peak={EVIL: 3},
        peak_bytes=7,
    )


def assert_clean(text):
    assert text.replace("\n", "").isprintable()
    assert r"\x1b[31mred" in text.replace("\\textbackslash{}", "\\").replace("\\\\", "\\").replace("\\[", "[")


@pytest.mark.parametrize("format", [name for name in FORMATS if name not in (*VERBATIM, *PICTURES.values())])
def test_every_format_shows_what_does_not_print_and_sends_none_of_it(format):
    known = FORMATS[format]

    assert_clean(known.text(hostile(), {}))


@pytest.mark.parametrize("format", ["tree", "table", "deepspeed"])
def test_the_terminal_gets_no_escape_that_is_not_ours(format):
    page = io.StringIO()
    prepare(format).show(hostile(), Console(file=page, width=200, force_terminal=False))

    assert_clean(page.getvalue())


def test_a_comparison_and_the_list_of_ops_are_as_safe():
    for text in (compare(lenet(), hostile()).render(), compare(hostile(), lenet()).render("markdown")):
        assert_clean(text)
    assert_clean("\n".join(used_lines(hostile())))


def test_a_name_with_a_line_break_stays_one_row():
    assert len(render(hostile(), "csv").splitlines()) == 3
    assert render(hostile(), "tids").count("\n") == 4, "two modules and two doubts"


def test_a_clean_profile_is_drawn_as_it_is():
    assert printable("é 層 x[0]") == "é 層 x[0]"
    assert one_line("two\nlines\tand\x1b") == r"two lines and\x1b"
    assert printable("kept\nhere", keep="\n") == "kept\nhere"


@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_a_spreadsheet_runs_no_cell(sign):
    root = rooted(module("", "Net", module(f"{sign}cmd()", f"{sign}Kind", flops=1, allocated_bytes=-5)))
    rows = list(csv.DictReader(io.StringIO(render(Profile(root), "csv"))))

    assert rows[1]["path"] == f"'{sign}cmd()"
    assert rows[1]["kind"] == f"'{sign}Kind"
    assert rows[1]["allocated_bytes"] == "-5", "a number is no formula"


def test_markdown_cells_hold_no_markup_whatever_the_device_is_called():
    profile = replace(oddities(), at_peak={"a|b": 3}, peak_bytes=3)
    text = render(profile, "markdown")

    assert r"a\|b" in text
    assert "a|b" not in text
