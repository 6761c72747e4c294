"""What a notebook shows of a value: its headline, the heaviest rows with bars, and more to open; plain HTML, no script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from .. import units
from ..analysis.findings import Finding
from ..analysis.folding import fold, shortened
from ..analysis.headline import LABEL, headline
from ..analysis.report.page_step import step_of
from ..analysis.tables import own_rows, tree_rows
from ..results.generation import Generation
from ..results.node import Node
from ..results.plan import Plan
from ..results.profile import Profile
from ..results.run import Run
from ..results.sweep import Sweep
from . import comparison, job_page
from .columns import figures
from .page import Column, Grid, Heading, Lines, Page
from .palette import HUES
from .summary import caveats, coverage_lines, title
from .tree import tree_grid

MOST_ROWS = 40
FIRST_ROWS = 8
STYLE = """
.flopsight { --line: #8884; --soft: #808890; --warn: #b45309; --card: #8882; line-height: 1.4;
  table { border-collapse: collapse; margin: .3em 0; font-variant-numeric: tabular-nums; }
  td, th { text-align: right; padding: 1px 8px; white-space: nowrap; border-bottom: 1px solid #8883; background: none; }
  th { font-weight: 600; } td:first-child, th:first-child, .left { text-align: left; }
  .words td { text-align: left; white-space: normal; vertical-align: top; }
  h2 { font-size: 1em; margin: .6em 0 .2em; } summary { cursor: pointer; } .note { color: #b45309; } .red { color: #c0362c; } .green { color: #1d7f46; }
  td.bar { min-width: 9em; background: linear-gradient(90deg, HUE var(--part), transparent 0) no-repeat 0 50% / 100% 70%; }
  .said { display: flex; } .said b { flex: 0 0 5.5em; font-weight: 400; color: var(--soft); }
  .card div { display: flex; justify-content: space-between; gap: 1rem; max-width: 30em; }
""".replace("HUE", HUES[0])
COLOURS = ("red", "green", "left")
"""Styles of a terminal that a notebook shows too, and the side of words."""
NOTHING: Mapping[str, Sequence[str]] = {}


def profile_html(profile: Profile) -> str:
    """What a profile says first, and its heaviest modules; opened, its tree, its coverage and its notes."""
    notes = "".join(f'<div class="note">{escape(text)}</div>' for text in caveats(profile))
    covered = "" if profile.coverage.complete else "<br>".join(map(escape, coverage_lines(profile)))
    first = said((line[:LABEL].strip(), line[LABEL:]) for line in headline(profile))
    opened = _tree(profile.root, trained=profile.trained) + covered + notes
    top = f"<b>{escape(title(profile))}</b>{first}{_heaviest(profile)}"
    return f'<div class="flopsight">{_styled()}{top}{_details(f"{profile.one_line}", opened)}</div>'


def said(answers: Iterable[tuple[str, str]]) -> str:
    """Lines that each begin with a label, one below the other."""
    return "".join(
        f'<div class="said"><b>{escape(name)}</b><span>{escape(text)}</span></div>' for name, text in answers
    )


def _heaviest(profile: Profile) -> str:
    """The modules that take most of the time, or of the work if nothing was timed: a bar is the share of the whole."""
    step = step_of(profile)
    by = "latency" if step.whole else "flops"
    rows = [row for row in own_rows(fold(step.timed), by, telling=(by,)) if row[by]][:FIRST_ROWS]
    if not rows:
        return ""
    names = Column("module", tuple(f"{row.path or row.name} {row.kind}".strip() for row in rows), right=False)
    titles = {"params": "params", "FLOPs": "FLOPs", "latency": f"time of the {step.word}"}
    shown = (column for column in figures(rows, trained=profile.trained) if column.title in titles)
    columns = [replace(column, title=titles[column.title]) for column in shown]
    shares = [row.shares[by] or 0.0 for row in rows]
    bars = [f'<td class="bar" style="--part:{share:.1%}"></td>' for share in shares]
    return table(Grid((names, *columns)), {"share": [f"<td>{units.percent(share)}</td>" for share in shares], "": bars})


def node_html(node: Node) -> str:
    """One module with what is below it."""
    return _card(node.one_line, _tree(node, trained=bool(node.backward.flops)))


def _sweep_html(sweep: Sweep) -> str:
    """The points of a sweep, and how its modules grow."""
    from .sweep_page import page

    return _card(sweep.one_line, draw(page(sweep)))


def _generation_html(made: Generation) -> str:
    """What serving takes."""
    from ..analysis.serving_facts import title as named
    from .generation_page import body

    return _card(named(made), body(made))


def _run_html(run: Run) -> str:
    """A monitored run: its figures, and curves of them."""
    from .run_html import LOOK, body

    return _card(repr(run).strip("<>"), body(run), LOOK)


def _plan_html(plan: Plan) -> str:
    """The options of a plan, the fastest first."""
    from .plan_page import BARS, plan_body, title

    return _card(title(plan), plan_body(plan), BARS)


def _findings_html(found: Sequence[Finding]) -> str:
    """Findings as rows: what, where, the evidence, what it brings at most, the next move."""
    heads = {"finding": "what", "to win": "win", "where": "place", "evidence": "evidence", "next": "next_move"}
    cells = {head: tuple(getattr(one, name) for one in found) for head, name in heads.items()}
    grid = Grid(tuple(Column(head, texts, right=False) for head, texts in cells.items()))
    number = f"{len(found)} finding{'' if len(found) == 1 else 's'}"
    return _card(number, f'<div class="words">{draw([grid])}</div>' if found else "Nothing found to change.")


VIEWS: Mapping[str, Callable[[Any], str]] = {
    "Profile": profile_html, "Node": node_html, "Group": node_html, "Comparison": lambda one: _card(one.one_line, draw(comparison.page(one))),
    "Job": lambda job: _card(job.one_line, draw(job_page.ranks(job))),
    "Sweep": _sweep_html, "Generation": _generation_html, "Run": _run_html, "Plan": _plan_html,
    "Findings": _findings_html, "Finding": lambda one: _findings_html((one,)),
}  # fmt: skip
"""How each class of value is shown."""


def html_of(value: object) -> str:
    """The value as a notebook shows it."""
    return VIEWS[type(value).__name__](value)


def _tree(root: Node, *, trained: bool) -> str:
    rows = tree_rows(shortened(root, None, MOST_ROWS))
    return draw([tree_grid(rows, figures(rows, trained=trained))])


def draw(page: Page) -> str:
    """A page as HTML, in the colours that it has on a terminal."""
    return "".join(map(_part, page))


def _part(part: Heading | Lines | Grid) -> str:
    if isinstance(part, Heading):
        return f"<h2>{escape(part.text)}</h2>"
    if isinstance(part, Grid):
        return table(part)
    styles = part.styles or (part.style,) * len(part.lines)
    return "".join(f"<div{_class(style)}>{escape(line)}</div>" for line, style in zip(part.lines, styles, strict=True))


def table(grid: Grid, more: Mapping[str, Sequence[str]] = NOTHING, rows: Sequence[str] = ()) -> str:
    """Rows of cells; `more` are further columns whose cells are HTML already, `rows` the attributes of each row."""
    sides = ["" if column.right else "left" for column in grid.columns]
    titles = zip((*(column.title for column in grid.columns), *more), (*sides, *("left" for _ in more)), strict=True)
    head = "".join(f"<th{_class(side)}>{escape(title)}</th>" if title else "<td></td>" for title, side in titles)
    body = []
    for place, (depth, cells) in enumerate(grid.rows()):
        styles = [
            _class(column.styles[place] if column.styles else "", side)
            for column, side in zip(grid.columns, sides, strict=True)
        ]
        name, *rest = (f"<td{style}>{escape(cell)}</td>" for style, cell in zip(styles, cells, strict=True))
        rest += [drawn[place] for drawn in more.values()]
        own = rows[place] if rows else ""
        body.append(f"<tr{own}>{name.replace('>', '>' + '&emsp;' * depth, 1)}{''.join(rest)}</tr>")
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _class(*styles: str) -> str:
    found = " ".join(style for style in styles if style in COLOURS)
    return f' class="{found}"' if found else ""


def _card(headline: str, inside: str, look: str = "") -> str:
    """A value under its headline, open; `look` is style of its own."""
    return f'<div class="flopsight">{_styled(look)}{_details(headline, inside, " open")}</div>'


def _styled(look: str = "") -> str:
    """Style that reaches no other cell: every rule is nested in ours."""
    return f"<style>{STYLE}{look}}}</style>"


def _details(line: str, inside: str, state: str = "") -> str:
    return f"<details{state}><summary>{escape(line)}</summary>{inside}</details>"
