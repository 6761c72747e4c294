"""A plan as text, and as a page: options as rows, memory by kind and the predicted step's parts as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from .. import units
from ..errors import InputError
from ..files.store import dumps
from ..files.whole_files import write_text
from ..results.plan import Plan, PlanOption
from .html.static import standalone

TOP = 12
"""Options that are printed if no other number is asked for."""
MESH, CHECKPOINT, BOUND = "mesh", "checkpoint", "bound"
"""Columns of words."""
COLOURS = (
    "#4f7cff", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#06b6d4", "#ec4899", "#84cc16", "#64748b", "#b45309",
)  # fmt: skip
BARS = """
.bar { display: flex; height: 1.1rem; min-width: 12rem; background: var(--card); border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; } .key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .3rem 0 1rem; }
td.over { color: var(--warn); } tr.no { opacity: .6; } td:first-child { white-space: nowrap; }
"""
SUFFIXES = (".json", ".html", ".txt")


def write_plan(plan: Plan, path: Path) -> Path:
    """Write a plan in the format of the file's suffix."""
    check_plan_file(path)
    draw = {".json": dumps, ".html": plan_html}.get(path.suffix)
    return write_text(path, draw(plan) if draw else f"{plan_text(plan)}\n")


def check_plan_file(path: Path) -> None:
    """Refuse a file whose suffix is not one of a plan's formats."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"The suffix of -o {path} is not a format of a plan; it can be {', '.join(SUFFIXES)}.")


def plan_text(plan: Plan, *, top: int | None = None) -> str:
    """The best option with its reasons and assumptions, then the options, the fastest first."""
    best = plan.best
    lines = [title(plan), "", *_headline(best, served="serve" in plan.settings)]
    lines += ["", *_parts("Predicted step", best.parts, units.seconds), *_parts("Memory", best.memory, units.size)]
    shown = plan.options[: top or TOP]
    lines += ["", *_table(_rows(plan, shown))]
    left = len(plan.options) - len(shown)
    if left:
        fitting = sum(option.fits for option in plan.options)
        lines.append(f"... and {left} more; {fitting} of {len(plan.options)} fit")
    lines += ["", "Assumed, with the names that --assume overrides:", *(f"  {line}" for line in best.assumptions)]
    return "\n".join(lines)


def title(plan: Plan) -> str:
    """What was planned."""
    words = ", ".join(
        f"{name} {value}" if name not in ("precision", "optimizer", "sequence") else value
        for name, value in plan.settings.items()
        if (name, value) not in (("compile", "no"), ("serve", "yes"))
    )
    return f"{plan.target} on {plan.gpus:,} x {plan.device}: {words}"


def _headline(best: PlanOption, *, served: bool) -> list[str]:
    speed = f"predicted {units.seconds(best.step)} a step, {_speed(best)}, MFU {units.percent(best.mfu)}"
    split = f"micro-batch {best.micro_batch}, accumulated {best.accumulate}x, checkpointing {best.checkpoint}"
    if served:
        split = f"{best.micro_batch:,} sequences at once, {best.samples:,} on all GPUs"
    fit = f"{units.size(best.peak_bytes)} of {units.size(best.room)}"
    if not best.fits:
        return [
            f"Nothing fits. Nearest: {best.mesh_text}, {split}: {fit}",
            f"  {best.why}",
            f"  {least_that_fits(best)}",
        ]
    return [f"Best: {best.mesh_text}, {split}", f"  {speed}, peak {fit}", f"  {best.why}"]


def least_that_fits(option: PlanOption) -> str:
    """What would make an option fit: the GPUs that its lasting memory asks for, or a smaller input."""
    lasting = sum(size for kind, size in option.memory.items() if kind in ("parameters", "optimizer", "gradients"))
    moving = option.peak_bytes - lasting
    if moving < option.room:
        sharded = lasting * option.gpus / (option.room - moving)
        return f"about {int(-(-sharded // 8) * 8):,} GPUs would hold it if weights, gradients and state are sharded over all"
    return "what comes and goes alone does not fit: take a shorter sequence, more tp or cp, or checkpoint=full"


def _speed(option: PlanOption) -> str:
    tokens = option.tokens_per_second_per_gpu
    if tokens is None:
        return f"{units.si(option.samples_per_second)} samples/s"
    return f"{tokens:,.0f} tokens/s a GPU, {option.tflops_per_gpu:,.0f} TFLOP/s"


def _parts(name: str, parts: Mapping[str, float], say: Callable[[float], str]) -> list[str]:
    whole = sum(parts.values()) or 1
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{kind} {say(value)} ({units.percent(value / whole)})" for kind, value in ordered)
    return [f"{name} {say(whole)}: {text}"]


def _rows(plan: Plan, options: Sequence[PlanOption]) -> list[list[str]]:
    """The head of the table, and a row for each option; one that serves has sequences and no way of checkpointing."""
    served = "serve" in plan.settings
    named = {
        MESH: lambda one: one.mesh_text,
        "sequences" if served else "micro-batch": lambda one: f"{one.micro_batch:,}",
        "accumulate": lambda one: str(one.accumulate),
        CHECKPOINT: lambda one: one.checkpoint,
        "peak": lambda one: units.size(one.peak_bytes),
        "of GPU": lambda one: units.percent(one.peak_bytes / one.room) if one.fits else "too large",
        "predicted step": lambda one: units.seconds(one.step),
        "MFU": lambda one: units.percent(one.mfu),
        BOUND: lambda one: one.bound,
        "samples/s" if plan.best.tokens is None else "tokens/s/GPU": _rate,
    }
    columns = [name for name in named if not (served and name in ("accumulate", CHECKPOINT))]
    return [columns, *([named[name](option) for name in columns] for option in options)]


def _rate(option: PlanOption) -> str:
    tokens = option.tokens_per_second_per_gpu
    return f"{option.samples_per_second:,.1f}" if tokens is None else f"{tokens:,.0f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if name in (MESH, CHECKPOINT, BOUND) else cell.rjust(width)
            for name, cell, width in zip(rows[0], row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def plan_html(plan: Plan) -> str:
    """The plan as one page that needs nothing beside it."""
    return standalone(f"Plan of {plan.target}", f"<h1>{escape(title(plan))}</h1>{plan_body(plan)}", BARS)


def plan_body(plan: Plan) -> str:
    """Everything below the title."""
    best = plan.best
    kinds = list(dict.fromkeys(kind for option in plan.options for kind in option.memory))
    parts = list(dict.fromkeys(name for option in plan.options for name in option.parts))
    slowest = max(
        (option.step / option.samples for option in plan.options if option.fits), default=best.step / best.samples
    )
    names, *cells = _rows(plan, plan.options)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f'<tr class="{"" if option.fits else "no"}" title="{escape(option.why)}">'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + f"<td>{_bar(option.memory, kinds, option.room)}</td>"
        + f"<td>{_bar(option.parts, parts, slowest * option.samples)}</td></tr>"
        for option, row in zip(plan.options, cells, strict=True)
    )
    body = [
        *(f"<p>{escape(line.strip())}</p>" for line in _headline(best, served="serve" in plan.settings)),
        f"<p>Memory, against what a GPU has:{_keys(kinds)}</p><p>Predicted step:{_keys(parts)}</p>",
        f"<table><tr>{head}<th>memory</th><th>predicted step</th></tr>{rows}</table>",
        "<h2>Assumed</h2>",
        *(f'<p class="soft">{escape(line)}</p>' for line in best.assumptions),
    ]
    return "".join(body)


def _bar(parts: Mapping[str, float], kinds: list[str], full: float) -> str:
    """Parts as coloured pieces of a bar that is full at `full`, and shrunk to it if they are more."""
    scale = max(full, sum(parts.values())) or 1.0
    pieces = "".join(
        f'<i style="width:{100 * parts[kind] / scale:.2f}%;background:{COLOURS[place % len(COLOURS)]}" title="{escape(kind)}"></i>'
        for place, kind in enumerate(kinds)
        if parts.get(kind)
    )
    return f'<div class="bar">{pieces}</div>'


def _keys(kinds: list[str]) -> str:
    return "".join(
        f'<span class="key" style="background:{COLOURS[place % len(COLOURS)]}"></span>{escape(kind)}'
        for place, kind in enumerate(kinds)
    )
