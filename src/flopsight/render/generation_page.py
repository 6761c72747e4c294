"""A generation as a page: what serving takes on a device, in sentences and tables; as text and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ..analysis.headline import limit_unknown
from ..analysis.serving import Serving
from ..analysis.serving_facts import Table, answers, costs, memory, model_line, notes, times, title
from ..files.store import dumps
from ..results.generation import Generation
from .formats import Format
from .html.static import standalone
from .notebook import draw, said
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain

LABEL = 13


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
    told = [f"{name:<{LABEL}}{answer}" for name, answer in answers(serving)]
    return [
        Heading(_title(serving)),
        Lines((model_line(made),)),
        Lines((*told, *_unknown(serving, on))),
        *_tables(serving),
    ]


def body(made: Generation, *, on: str | None = None) -> str:
    """Everything below the title as HTML."""
    serving = Serving(made, on)
    first = draw([Lines((model_line(made),))]) + said(answers(serving))
    return first + draw([Lines(tuple(_unknown(serving, on))), *_tables(serving)])


def _title(serving: Serving) -> str:
    device = f" for {serving.ceilings.name}" if serving.device is not None and serving.ceilings else ""
    return f"{title(serving.made)}{device}"


def _unknown(serving: Serving, on: str | None) -> list[str]:
    if serving.step_roof() is not None:
        return []
    return [f"least times are not known: {limit_unknown(serving.made.last, on)}"]


def _tables(serving: Serving) -> Page:
    tables = [table for table in (times(serving), memory(serving.made), costs(serving.made)) if table.rows]
    return [
        *(part for table in tables for part in (Heading(table.title), _grid(table))),
        Lines(tuple(notes(serving)), style="dim"),
    ]


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
    name = _title(Serving(made, on))
    return standalone(name, f"<h1>{escape(name)}</h1>" + body(made, on=on))
