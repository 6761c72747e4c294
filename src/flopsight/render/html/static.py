"""The report page for readers without JavaScript: the tree view and the table of ops, as plain HTML."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from ...results.profile import Profile
from .. import table, tree
from ..notebook import draw
from ..page import Lines

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; max-width: 96rem; padding: 0 clamp(.6rem, 2vw, 1.5rem); }
h1, h2:first-child { font-size: 1.5rem; margin: 0 0 1.25rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
.card { background: var(--card); border-radius: 8px; padding: .75rem 1rem; }
.card div { display: flex; justify-content: space-between; gap: 1rem; } .card span:first-child, .soft { color: var(--soft); } .warn { color: var(--warn); } pre { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; display: block; max-width: 100%; overflow-x: auto; }
td, th { text-align: right; padding: .1rem .6rem; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; white-space: nowrap; }
td:first-child, th:first-child, .left { text-align: left; } th { color: var(--soft); font-weight: 500; } main > div { white-space: pre-wrap; }
.said { display: flex; } .said b { flex: 0 0 6rem; font: inherit; color: var(--soft); margin: 0; }
dt { color: var(--soft); } dd { margin: 0; } h1:has(+ .soft) { margin: 0; } h1 + .soft { margin: .15rem 0 0; }
"""
"""The look of every page that is plain HTML, beside its colours."""


@cache
def look() -> str:
    """The style of a page that is plain HTML, with the colours and tiles of the report page's style sheet, which begins with colours."""
    sheet = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    return sheet[: sheet.index("*{")] + sheet[sheet.index(".verdict{") : sheet.index(".folds{")] + STYLE


def head(name: str, about: str, verdict: str, tiles: Sequence[tuple[str, str, str]]) -> str:
    """The top of a page as the report page has it: a tile is a label, a value and a note."""
    drawn = "".join(
        f'<div class="tile"><dt>{escape(label)}</dt><dd class="value">{escape(value)}</dd><dd class="soft">{escape(note)}</dd></div>'
        for label, value, note in tiles
    )
    return f'<h1>{escape(name)}</h1><p class="soft">{escape(about)}</p><p class="verdict">{escape(verdict)}</p><dl class="tiles">{drawn}</dl>'


def standalone(name: str, body: str, own: str = "") -> str:
    """A file of plain HTML that needs nothing beside it; `own` is style for this page alone."""
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    for wide in ("table", "pre"):  # which scroll on a narrow screen, by keyboard too
        body = body.replace(f"<{wide}>", f'<{wide} tabindex="0">')
    return f"{head}<style>{look()}{own}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"


def static_page(profile: Profile, *, max_rows: int, full: bool, on: str | None) -> str:
    """The body of the page without script: summary, module tree, coverage, caveats, operators."""
    modules = tree.page(profile, max_rows=max_rows, full=full, on=on)
    return draw([*modules, *table.operators(profile, full=True), Lines((made_text(profile),))])


def made_text(profile: Profile) -> str:
    """With what and when the profile was made."""
    env = profile.environment
    parts = (
        f"flopsight {env.flopsight}" if env.flopsight else "",
        f"Python {env.python}" if env.python else "",
        env.made,
    )
    return ", ".join(part for part in parts if part)
