"""The report page for readers without JavaScript: the tree view and the table of ops, as plain HTML."""

from __future__ import annotations

from html import escape

from ...results.profile import Profile
from .. import table, tree
from ..notebook import draw
from ..page import Lines

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color-scheme: light dark; margin: 2rem auto; max-width: 96rem; padding: 0 1.5rem; }
b { font-size: 1.5rem; } div { white-space: pre-wrap; } table { border-collapse: collapse; margin: 1rem 0; }
td, th { text-align: right; padding: .1rem .6rem; border-bottom: 1px solid #8883; font-variant-numeric: tabular-nums; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
"""


def standalone(name: str, body: str) -> str:
    """A file of plain HTML that needs nothing beside it."""
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
    return f"{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"


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
