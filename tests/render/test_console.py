"""A terminal gets the same rows in colour; other formats stay as they are."""

import io
import re

import pytest
from profiles import lenet, linear, module, oddities, rooted, stack
from rich.console import Console

from flopsight.analysis.compare import compare
from flopsight.errors import InputError
from flopsight.render import prepare, render
from flopsight.render.comparison import page
from flopsight.render.console import bar, draw
from flopsight.render.formats import FORMATS, PRINTED
from flopsight.render.plain import plain
from flopsight.results.profile import Profile


def shown(profile, format="tree", width=120, colour=True, **options):
    page = io.StringIO()
    console = Console(
        file=page, width=width, force_terminal=colour, color_system="standard" if colour else None, legacy_windows=False
    )
    prepare(format, **options).show(profile, console)
    return page.getvalue()


def words(text):
    """Text without colour, guides, rules and bars."""
    bare = re.sub(r"\x1b\[[\d;]*m|[│├└▏▎▍▌▋▊▉█]", " ", text)
    return [line.split() for line in bare.splitlines() if line.strip() and not set(line.strip()) <= {"-"}]


@pytest.mark.parametrize("make", [lenet, stack, oddities])
@pytest.mark.parametrize("format", ["tree", "table"])
@pytest.mark.parametrize("width", [70, 120])
def test_the_terminal_shows_the_words_of_the_plain_text(make, format, width):
    assert words(shown(make(), format, width)) == words(render(make(), format, width=width))


def test_a_terminal_gets_colour_and_guides():
    text = shown(stack())

    assert "\x1b[" in text
    assert "├ " in text
    assert "└ " in text


def test_guides_join_siblings():
    profile = Profile(rooted(module("", "Net", module("a", "A", linear("x", 4, 8, 8)), linear("b", 4, 8, 9))))
    lines = [line for line in shown(profile, colour=False).splitlines() if re.search(r"[├└│]", line)]

    assert [line.split(":")[0] for line in lines] == ["├ a", "│ └ x", "└ b"]


def test_bars_stand_beside_shares_where_a_terminal_has_colour():
    # two products of 4 x 8 x 8 and 4 x 8 x 24: a quarter and three quarters of all work
    profile = Profile(rooted(module("", "Net", linear("a", 4, 8, 8), linear("b", 4, 8, 24))))
    rows = [line for line in shown(profile).splitlines() if "Linear" in line]

    assert [re.sub(r"[^▏▎▍▌▋▊▉█]", "", line) for line in rows] == ["██", "██████"]
    assert "█" not in shown(profile, colour=False)


def test_bars_leave_a_narrow_terminal_before_any_figure():
    profile = Profile(rooted(module("", "Net", linear("a", 4, 8, 8), linear("b", 4, 8, 24))))
    narrow = max(map(len, render(profile, "tree", width=200).split("\n\n")[2].splitlines()))

    assert "█" not in shown(profile, width=narrow)
    assert words(shown(profile, width=narrow)) == words(render(profile, "tree", width=narrow))


def test_the_smallest_share_is_seen_and_none_is_not():
    assert [bar(share) for share in (0.0, 1e-9, 0.5, 1.0, 1.2)] == ["", "▏", "████", "████████", "████████"]


def test_names_with_brackets_are_no_markup():
    profile = Profile(rooted(module("", "Net", module("[red]x[/red]", "K", flops=1))))

    assert "[red]x[/red]: K" in shown(profile, colour=False)


@pytest.mark.parametrize(
    "format", sorted(name for name in PRINTED if not (FORMATS[name].page or FORMATS[name].needs_timeline))
)
def test_formats_for_other_programs_reach_the_terminal_unchanged(format):
    profile = lenet()

    assert shown(profile, format, width=60) == render(profile, format)


def test_thousands_of_rows_are_written_plainly():
    wide = Profile(rooted(module("", "Wide", *(linear(f"part_{i}_x", 1 + i, 8, 8) for i in range(3000)))))

    assert shown(wide, full=True, width=100) == render(wide, "tree", full=True, width=100)


def test_a_wrong_option_is_refused_here_too():
    with pytest.raises(InputError, match="no option 'dept'"):
        shown(lenet(), dept=1)


RED, GREEN = "\x1b[31m", "\x1b[32m"


def compared(before, after):
    """What a terminal shows of two profiles."""
    drawn = io.StringIO()
    draw(
        page(compare(before, after)), Console(file=drawn, width=120, force_terminal=True, color_system="standard"), 120
    )
    return drawn.getvalue()


def test_what_costs_more_is_red_and_what_costs_less_is_green(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)

    more, less = compared(stack(2), stack(3)), compared(stack(3), stack(2))

    assert RED in more
    assert GREEN not in more
    assert GREEN in less
    assert RED not in less


def test_a_comparison_has_no_colour_where_none_is_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    text = compared(stack(2), stack(3))

    assert RED not in text
    assert GREEN not in text


def test_a_terminal_shows_the_words_of_a_comparison():
    plain_text = plain(page(compare(stack(2), stack(3))), 120)

    assert words(compared(stack(2), stack(3))) == words(plain_text)
