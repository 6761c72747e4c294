"""A generation as a page: what serving takes on a device, in sentences and tables; as text and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ..analysis.serving import Serving
from ..analysis.serving_facts import Table, answers, costs, memory, model_line, notes, times, title
from ..files.printable import one_line
from ..files.store import dumps
from ..results.generation import Generation
from .formats import Format
from .html.static import STYLE
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain

LABEL = 13
NO_DEVICE = "least times: --on h100-sxm names a device; flopsight device lists them"


def text(made: Generation, format: Format, options: Mapping[str, Any]) -> str:
    """The page, or in another format the module rows: of prefill and of the step in the middle, if the format is a page."""
    if format.name == "json":
        return dumps(made)
    if format.name == "html":
        return html(made, on=options.get("on"))
    if format.name == "tree":
        return plain(page(made, on=options.get("on")), options.get("width"))
    step = format.text(made.middle, options)
    if not format.page:
        return step
    number = (made.new_tokens + 1) // 2
    return f"Prefill\n\n{format.text(made.prefill, options)}\nStep {number:,} of {made.new_tokens:,}\n\n{step}"


def page(made: Generation, *, on: str | None = None) -> Page:
    """The answers first, then times, memory and costs, then what is assumed."""
    serving = Serving(made, on)
    said = [f"{name:<{LABEL}}{answer}" for name, answer in answers(serving)]
    if serving.step_roof() is None:
        said.append(NO_DEVICE)
    tables = [part for table in _tables(serving) for part in (Heading(table.title), _grid(table))]
    return [
        Heading(one_line(_headed(serving))),
        Lines((model_line(made),)),
        Lines(tuple(said)),
        *tables,
        Lines(tuple(map(one_line, notes(serving))), style="dim"),
    ]


def _headed(serving: Serving) -> str:
    return title(serving.made) + (
        f" for {serving.ceilings.name}" if serving.device is not None and serving.ceilings else ""
    )


def _tables(serving: Serving) -> tuple[Table, ...]:
    return times(serving), memory(serving.made), costs(serving.made)


def _grid(table: Table) -> Grid:
    columns = list(zip(*table.rows, strict=True))
    return Grid(
        tuple(
            Column(head, tuple(cells), keep=100 - place, right=place > 0 and head != "bound by")
            for place, (head, cells) in enumerate(zip(table.head, columns, strict=True))
        )
    )


def html(made: Generation, *, on: str | None = None) -> str:
    """The page as one HTML file that needs nothing beside it."""
    serving = Serving(made, on)
    name = escape(one_line(_headed(serving)))
    cards = "".join(
        f"<div><span>{escape(label)}</span><span>{escape(said)}</span></div>" for label, said in answers(serving)
    )
    body = [f"<h1>{name}</h1><p>{escape(model_line(made))}</p>", f'<div class="card">{cards}</div>']
    body += [_html_table(table) for table in _tables(serving)]
    body += [f'<p class="soft">{escape(one_line(note))}</p>' for note in notes(serving)]
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style></head>'
    )
    return "\n".join((head, "<body>", *body, "</body></html>\n"))


def _html_table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = [row(table.head, "th"), *(row(cells, "td") for cells in table.rows)]
    return f"<h2>{escape(table.title)}</h2><table>{''.join(rows)}</table>"
