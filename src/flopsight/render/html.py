"""A profile as one HTML file that needs nothing beside it: summary, collapsible module tree, ops, coverage, caveats."""

from __future__ import annotations

from html import escape
from pathlib import Path

from .. import units
from ..analysis.folding import fold
from ..analysis.tables import OpTotal, TableRow, op_totals, tree_rows
from ..tree import Profile
from .columns import shapes
from .summary import caveats, coverage_lines, title, totals
from .tree import label

OPEN_DEPTH = 3
"""Modules above this depth are open when the page loads."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #66707f; --line: #e3e7ee; --bar: #4f7cff33; --page: #fff; --card: #f6f8fb; --warn: #b45309; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2b3240; --bar: #6f93ff40; --page: #12161d; --card: #1a202a; --warn: #f5b04d; }
}
* { box-sizing: border-box; }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; max-width: 80rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 1.25rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border-radius: 8px; padding: .75rem 1rem; }
.card div { display: flex; justify-content: space-between; gap: 1rem; } .card span:first-child { color: var(--soft); }
.card span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.row, .head { display: grid; grid-template-columns: minmax(0, 1fr) repeat(6, 6.2rem) 11rem; gap: .5rem; padding: .1rem .4rem; border-bottom: 1px solid var(--line); }
.head, th { color: var(--soft); font-weight: 500; position: sticky; top: 0; background: var(--page); }
.row > *, .head > * { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.row > :first-child, .head > :first-child, .row > :last-child, .head > :last-child { text-align: left; }
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


def write(profile: Profile, path: Path) -> Path:
    """Write the page; the directory is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(profile), encoding="utf-8")
    return path


def render(profile: Profile) -> str:
    """The page as text."""
    name = escape(title(profile))
    return "\n".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>',
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>',
            f"<h1>{name}</h1>",
            _cards(profile),
            "<h2>Modules</h2>",
            _tree(tree_rows(fold(profile.root))),
            *_ops(op_totals(profile.root)),
            "<h2>Coverage</h2>",
            _lines(coverage_lines(profile), "soft" if profile.coverage.complete else "warn"),
            *(["<h2>Caveats</h2>", _lines(caveats(profile), "warn")] if caveats(profile) else []),
            _made(profile),
            "</body></html>\n",
        )
    )


def _cards(profile: Profile) -> str:
    cards = (
        "".join(f"<div><span>{escape(name)}</span><span>{escape(text)}</span></div>" for name, text in group)
        for group in totals(profile)
    )
    return f'<div class="cards">{"".join(f"<div class=card>{card}</div>" for card in cards)}</div>'


def _tree(rows: list[TableRow]) -> str:
    """Rows in order, each in a `details` that holds the deeper rows after it."""
    names = ("module", "params", "MACs", "FLOPs", "share", "saved", "latency", "output")
    parts = [f'<div class="head">{"".join(f"<span>{name}</span>" for name in names)}</div>']
    still_open: list[int] = []
    for place, row in enumerate(rows):
        while still_open and still_open[-1] >= row.depth:
            parts.append("</details>")
            still_open.pop()
        if place + 1 < len(rows) and rows[place + 1].depth > row.depth:
            shown = " open" if row.depth < OPEN_DEPTH else ""
            parts.append(f"<details{shown}><summary>{_row(row)}</summary>")
            still_open.append(row.depth)
        else:
            parts.append(f"<div>{_row(row)}</div>")
    return "\n".join([*parts, "</details>" * len(still_open)])


def _row(row: TableRow) -> str:
    latency = "" if row.latency is None else units.seconds(row.latency)
    cells = [
        f'<span title="{escape(row.path)}">{escape(label(row))}</span>',
        f"<span>{units.si(row.params)}</span>",
        f"<span>{units.si(row.macs)}</span>",
        f"<span>{units.si(row.flops)}</span>",
        f'<span class="share" style="--share:{row.flops_share:.1%}">{escape(units.percent(row.flops_share))}</span>',
        f"<span>{units.size(row.activation_bytes) if row.activation_bytes else ''}</span>",
        f"<span>{latency}</span>",
        f'<span class="soft">{escape(shapes(row.output_shapes))}</span>',
    ]
    return f'<div class="row" style="--depth:{row.depth}">{"".join(cells)}</div>'


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


def _made(profile: Profile) -> str:
    env = profile.environment
    parts = (
        f"flopsight {env.flopsight}" if env.flopsight else "",
        f"Python {env.python}" if env.python else "",
        env.made,
    )
    said = ", ".join(part for part in parts if part)
    return f'<p class="soft">{escape(said)}</p>' if said else ""
