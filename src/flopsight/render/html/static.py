"""The report page for readers without JavaScript: plain HTML, the same figures as the tree view."""

from __future__ import annotations

from html import escape

from ... import units
from ...analysis.tables import OpTotal, TableRow, op_totals, tree_rows
from ...results.node import Node
from ...results.profile import Profile
from ..columns import SHARES as COLUMNS
from ..columns import figures
from ..page import Column
from ..summary import caveats, coverage_lines, title, totals
from ..tree import label

OPEN_DEPTH = 3
"""Modules above this depth are open when the page loads."""
SHARES = {title: key for key, (title, _) in COLUMNS.items()}
"""Columns that are drawn as bars, and the figure whose share each is."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #66707f; --line: #e3e7ee; --bar: #4f7cff33; --page: #fff; --card: #f6f8fb; --warn: #b45309; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2b3240; --bar: #6f93ff40; --page: #12161d; --card: #1a202a; --warn: #f5b04d; }
}
* { box-sizing: border-box; }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; max-width: 96rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 1.25rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border-radius: 8px; padding: .75rem 1rem; }
.card div { display: flex; justify-content: space-between; gap: 1rem; } .card span:first-child { color: var(--soft); }
.card span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.row, .head { display: grid; grid-template-columns: minmax(12rem, 1fr) repeat(var(--figures), 5.4rem) 11rem; gap: .5rem; padding: .1rem .4rem; border-bottom: 1px solid var(--line); }
.head, th { color: var(--soft); font-weight: 500; position: sticky; top: 0; background: var(--page); }
.row > *, .head > * { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.row > .left, .head > .left { text-align: left; }
.row > :first-child { padding-left: calc(var(--depth) * 1.1rem); }
.share { background: linear-gradient(to left, var(--bar) var(--share), transparent var(--share)); }
summary { list-style: none; cursor: pointer; } summary::-webkit-details-marker { display: none; }
summary .row > :first-child::before { content: "\\25B8"; display: inline-block; width: 1rem; color: var(--soft); }
details[open] > summary .row > :first-child::before { content: "\\25BE"; }
div > .row > :first-child::before { content: ""; display: inline-block; width: 1rem; }
.row:hover { background: var(--card); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: right; padding: .1rem .6rem; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; } .warn { color: var(--warn); } .soft { color: var(--soft); }
"""


def static_body(profile: Profile, root: Node) -> str:
    """The page's body without script: summary, collapsible module tree, operators, coverage, caveats."""
    return "\n".join(
        (
            f"<h1>{escape(title(profile))}</h1>",
            _cards(profile),
            "<h2>Modules</h2>",
            _tree(tree_rows(root), trained=profile.trained),
            *_ops(op_totals(profile.root)),
            "<h2>Coverage</h2>",
            _lines(coverage_lines(profile), "soft" if profile.coverage.complete else "warn"),
            *(["<h2>Caveats</h2>", _lines(caveats(profile), "warn")] if caveats(profile) else []),
            f'<p class="soft">{escape(made_text(profile))}</p>',
        )
    )


def _cards(profile: Profile) -> str:
    cards = (
        "".join(f"<div><span>{escape(name)}</span><span>{escape(text)}</span></div>" for name, text in group)
        for group in totals(profile)
    )
    return f'<div class="cards">{"".join(f"<div class=card>{card}</div>" for card in cards)}</div>'


def _tree(rows: list[TableRow], *, trained: bool) -> str:
    """Rows in order, each in a `details` that holds the deeper rows after it."""
    columns = figures(rows, trained=trained)
    titles = "".join(f"<span{_left(column)}>{column.title}</span>" for column in columns)
    parts = [
        f'<div style="--figures:{sum(column.right for column in columns)}">',
        f'<div class="head"><span class="left">module</span>{titles}</div>',
    ]
    still_open: list[int] = []
    for place, row in enumerate(rows):
        drawn = _row(row, "".join(_cell(row, column, column.cells[place]) for column in columns))
        while still_open and still_open[-1] >= row.depth:
            parts.append("</details>")
            still_open.pop()
        if place + 1 < len(rows) and rows[place + 1].depth > row.depth:
            shown = " open" if row.depth < OPEN_DEPTH else ""
            parts.append(f"<details{shown}><summary>{drawn}</summary>")
            still_open.append(row.depth)
        else:
            parts.append(f"<div>{drawn}</div>")
    return "\n".join([*parts, "</details>" * len(still_open), "</div>"])


def _row(row: TableRow, cells: str) -> str:
    name = f'<span class="left" title="{escape(row.path)}">{escape(label(row))}</span>'
    return f'<div class="row" style="--depth:{row.depth}">{name}{cells}</div>'


def _cell(row: TableRow, column: Column, text: str) -> str:
    share = row.shares[SHARES[column.title]] if column.title in SHARES else None
    if share is None:
        return f"<span{_left(column)}>{escape(text)}</span>"
    return f'<span class="share" style="--share:{share:.1%}">{escape(text)}</span>'


def _left(column: Column) -> str:
    return "" if column.right else ' class="left soft"'


def _ops(ops: list[OpTotal]) -> list[str]:
    if not ops:
        return []
    head = "".join(f"<th>{name}</th>" for name in ("op", "phase", "calls", "MACs", "FLOPs", "bytes", "status"))
    rows = (
        f"<tr><td>{escape(op.op)}</td><td>{escape(op.phase)}</td><td>{units.count(op.calls)}</td>"
        f"<td>{units.si(op.cost.macs)}</td><td>{units.si(op.cost.flops)}</td><td>{units.size(op.cost.bytes)}</td>"
        f"<td>{escape(op.status)}</td></tr>"
        for op in ops
    )
    return ["<h2>Operators</h2>", f"<table><tr>{head}</tr>{''.join(rows)}</table>"]


def _lines(lines: tuple[str, ...], kind: str) -> str:
    return "".join(f'<p class="{kind}">{escape(line)}</p>' for line in lines)


def made_text(profile: Profile) -> str:
    """With what and when the profile was made."""
    env = profile.environment
    parts = (
        f"flopsight {env.flopsight}" if env.flopsight else "",
        f"Python {env.python}" if env.python else "",
        env.made,
    )
    return ", ".join(part for part in parts if part)
