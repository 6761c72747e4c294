"""A profile as one HTML file that needs nothing beside it: the report page, with a static tree for readers without script."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ... import units
from ...analysis.compare import Comparison
from ...analysis.passes import to_depth
from ...analysis.report.page_data import Stacks, report
from ...analysis.report.page_diff import diff_report, diff_tiles, diff_verdict
from ...analysis.report.page_head import job_verdict, tiles, verdict
from ...analysis.report.page_limits import limit_figure, limit_sentence, limits
from ...analysis.report.page_ranks import collectives, ranks
from ...analysis.report.page_step import Step, step_of
from ...analysis.summary_facts import facts
from ...files.printable import printable
from ...files.whole_files import write_text
from ...results.job import Job
from ...results.profile import Profile
from ...results.world import ALONE
from ..summary import about, coverage_lines, title
from .static import look, made_text, static_page

INLINE = 1 << 20
"""Characters of JSON up to which the page holds it as it is; more is compressed."""
POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data: blob:\">"
)
"""The page may not load or send anything."""
NUMBERS = {int, float, bool, type(None)}
STATIC_ROWS = 2000
"""Rows of the tree that a reader without JavaScript sees at most."""


def write(profile: Profile | Job, path: Path, **options: Any) -> Path:
    """Write the page with the options of `render`; makes the directory if it is missing."""
    return write_text(path, render(profile, **options))


def render(profiled: Profile | Job, *, depth: int | None = None, full: bool = False, on: str | None = None) -> str:
    """The page of one profile, or of a job's model with its ranks: modules down to `depth`.

    `full` draws every block of a stack by itself; limits are those of the device `on`, else of the profile's own.
    """
    profile, job = (profiled.model, profiled) if isinstance(profiled, Job) else (profiled, None)
    shown = profile if depth is None else replace(profile, root=to_depth(depth)(profile.root))
    step, folded = step_of(shown), not full
    found = limits(shown, step, on, folded=folded)
    about_ranks = job_verdict(job) if job is not None else ""
    exchanged = collectives(list(shown.walk()), Stacks(shown.root, folded=folded))
    least = {node.path: roof.limit for node, roof in zip(step.nodes, found.get("roofs", ()), strict=False)}
    parts = (verdict(shown, on, least), limit_sentence(shown, step, found, on), about_ranks)
    said = ", ".join(part for part in parts if part)
    data = {
        "title": profile.root.kind,
        "about": about(profile, on) if job is None else f"{about(replace(profile, world=ALONE), on)}, {job.size} ranks",
        "made": made_text(profile),
        "verdict": said[:1].upper() + said[1:],
        "tiles": tiles(profile, on),
        "cards": [
            [[fact.label, units.say(fact.value, fact.unit), fact.note] for fact in group] for group in facts(profile)
        ],
        "coverage": {"complete": profile.coverage.complete, "lines": coverage_lines(profile)},
        **_views(shown, step, found, on, folded=folded),
        "ranks": [grid for grid in (ranks(job) if job is not None else None, exchanged) if grid is not None] or None,
    }
    return page(title(profile, on), data, static_page(shown, max_rows=STATIC_ROWS, full=full, on=on))


def _views(profile: Profile, step: Step, found: Mapping[str, Any], on: str | None, *, folded: bool) -> dict[str, Any]:
    """The tabs; with limits of another device, the time is named after the device that it was measured on."""
    env, roofs = profile.environment, found.get("roofs")
    where = (env.device_name or env.device or "another device") if on is not None else ""
    limit = [limit_figure(step, roofs, found["name"] if on else "")] if roofs else []
    first = [*limit, step.figure(where)] if on is not None else [step.figure(), *limit]
    page = report(profile, step, first, found.get("bound", ()), folded=folded, where=where)
    return page | {"roofline": found.get("roofline"), "findings": found["findings"]}


def render_comparison(comparison: Comparison) -> str:
    """The page of two profiles: what changed, ranked, and the modules of the later one."""
    kinds = list(dict.fromkeys((comparison.before.root.kind, comparison.after.root.kind)))
    name = f"{' and '.join(kinds)}: what changed"
    data = {
        "title": name,
        "about": f"before: {about(comparison.before)}; after: {about(comparison.after)}",
        "made": made_text(comparison.after),
        "verdict": diff_verdict(comparison),
        "tiles": diff_tiles(comparison),
        "cards": [],
        "coverage": {"complete": True, "lines": ()},
        **diff_report(comparison),
    }
    text = escape(comparison.render())
    return page(name, data, f"<h1>{escape(name)}</h1><pre>{text}</pre>")


def page(name: str, data: Mapping[str, Any], static: str) -> str:
    """The file: styles, a static body for readers without script, the data, and the script that draws it."""
    return "\n".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(printable(name))}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            POLICY,
            f"<style>{_asset('report.css')}</style></head><body>",
            f'<div id="app"></div><noscript><style>{look()}</style><main>{static}</main></noscript>',
            _embedded(data),
            f"<script>{_asset('report.js')}</script>",
            "</body></html>\n",
        )
    )


def _embedded(data: Mapping[str, Any]) -> str:
    """The data as a script element that no text in it can end."""
    text = json.dumps(_printable(data), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if len(text) <= INLINE:
        safe = text.replace("<", "\\u003c")
        return f'<script type="application/json" id="report-data">{safe}</script>'
    packed = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="report-data" data-encoding="gzip">{packed}</script>'


def _printable(value: Any) -> Any:
    """The page's data with every text in it as it prints."""
    if isinstance(value, str):
        return printable(value, keep="\n")
    if isinstance(value, Mapping):
        return {key: _printable(item) for key, item in value.items()}
    # most of a page are columns of numbers
    if not isinstance(value, list | tuple) or NUMBERS.issuperset(map(type, value)):
        return value
    return [_printable(item) for item in value]


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
