"""The report page for readers without JavaScript: the tree view and the table of ops, as plain HTML."""

from __future__ import annotations

from html import escape

from ...results.profile import Profile
from .. import table, tree
from ..notebook import draw
from ..page import Lines

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #66707f; --line: #e3e7ee; --page: #fff; --card: #f6f8fb; --warn: #b45309; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2b3240; --page: #12161d; --card: #1a202a; --warn: #f5b04d; }
}
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; max-width: 96rem; padding: 0 1.5rem; }
h1, b { font-size: 1.5rem; margin: 0 0 1.25rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border-radius: 8px; padding: .75rem 1rem; }
.card div { display: flex; justify-content: space-between; gap: 1rem; } .card span:first-child, .soft { color: var(--soft); } .warn { color: var(--warn); }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { text-align: right; padding: .1rem .6rem; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; } th { color: var(--soft); font-weight: 500; } body > div { white-space: pre-wrap; }
"""
"""The look of every page that is plain HTML."""


def standalone(name: str, body: str, look: str = "") -> str:
    """A file of plain HTML that needs nothing beside it; `look` is style of its own."""
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    return f"{head}<style>{STYLE}{look}</style></head>\n<body>\n{body}\n</body></html>\n"


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
