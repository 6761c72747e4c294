"""A plan as text, and as a page: options as rows, memory by kind and the predicted step's parts as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil
from pathlib import Path

from .. import units
from ..errors import InputError
from ..files.store import dumps
from ..files.whole_files import write_text
from ..results.plan import Plan, PlanOption
from .html.static import head, standalone
from .notebook import table
from .page import Column, Grid, terminal_width
from .palette import GREY, MEMORY_HUES, PIECES
from .plain import grid_lines, wrapped

TOP = 12
"""Options that are printed if no other number is asked for."""
WORDS = ("mesh", "checkpoint", "bound")
"""Columns of words."""
FIRST_TO_LEAVE = ("bound", "MFU", "of GPU")
"""Columns that leave a narrow table before all others, which leave from the left; the last of them says what does not fit."""
GPUS, FIRST = "GPUs", "predicted first token"
BARS = """
.bar { display: flex; height: 1.1rem; min-width: 12rem; background: var(--card); border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; } .key { white-space: nowrap; margin-left: 1rem; } .key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .3rem; }
tr.no { opacity: .6; } td:first-child { white-space: nowrap; }
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


def plan_text(plan: Plan, *, top: int | None = None, width: int | None = None) -> str:
    """The best option with its reasons and assumptions, then the options, the fastest first; lines of `width` at most."""
    best, width = plan.best, width or terminal_width()
    lines = [title(plan), "", *_headline(plan)]
    lines += ["", *_parts("Predicted step", best.parts, units.seconds)]
    lines += _parts("Memory", best.memory, units.size, least=0.0005)
    shown = plan.options[: top or TOP]
    if len(plan.sizes) > 1:
        lines += ["", "Best of each number of GPUs:", *_table(plan, _best_of_each(plan), width), "", "All options:"]
    else:
        lines.append("")
    lines += _table(plan, shown, width)
    left = len(plan.options) - len(shown)
    if left:
        fitting = sum(option.fits for option in plan.options)
        lines.append(f"... and {left} more; {fitting} of {len(plan.options)} fit")
    lines += ["", "Assumed, with the names that --assume overrides:", *(f"  {line}" for line in best.assumptions)]
    # rows of the table are narrow enough already, and wrapping would take the spaces between their columns
    return "\n".join(part for line in lines for part in (wrapped(line, width) if len(line) > width else [line]))


def title(plan: Plan) -> str:
    """What was planned."""
    return f"{_where(plan)}: {_settings(plan)}"


def _where(plan: Plan) -> str:
    return f"{plan.target} on {', '.join(f'{size:,}' for size in plan.sizes)} x {plan.device}"


def _settings(plan: Plan) -> str:
    return ", ".join(
        f"{name} {value}" if name not in ("precision", "optimizer", "sequence") else value
        for name, value in plan.settings.items()
        if (name, value) not in (("compile", "no"), ("serve", "yes"))
    )


def _headline(plan: Plan) -> list[str]:
    best, served = plan.best, "serve" in plan.settings
    speed = f"predicted {units.seconds(best.step)} a step, {_speed(best)}, MFU {units.percent(best.mfu)}"
    split = f"micro-batch {best.micro_batch}, accumulated {best.accumulate}x, checkpointing {best.checkpoint}"
    if served:
        split = f"{_many(best.micro_batch, 'sequence')} at once, {best.samples:,} on all GPUs"
    where = best.mesh_text if plan.sizes == (best.gpus,) else f"{_many(best.gpus, 'GPU')}, {best.mesh_text}"
    fit = f"{units.size(best.peak_bytes)} of {units.size(best.room)}"
    if not best.fits:
        return [
            f"Nothing fits. Nearest: {where}, {split}: {fit}",
            f"  {best.why}",
            f"  {least_that_fits(best, served=served)}",
        ]
    return [f"Best: {where}, {split}", f"  {speed}, peak {fit}", f"  {best.why}"]


def least_that_fits(option: PlanOption, *, served: bool = False) -> str:
    """What would make an option fit: the GPUs that its lasting memory asks for, or a smaller input."""
    if served:
        return (
            f"weights, cache and temporaries of its {_many(option.samples, 'sequence')} are {units.size(option.peak_bytes * option.gpus)} on "
            f"all GPUs: about {ceil(option.peak_bytes * option.gpus / option.room):,} would hold them, divided by tp or pp"
        )
    lasting = sum(size for kind, size in option.memory.items() if kind in ("parameters", "optimizer", "gradients"))
    moving = option.peak_bytes - lasting
    if moving < option.room:
        sharded = lasting * option.gpus / option.mesh.get("dp", 1) / (option.room - moving)
        return f"about {int(-(-sharded // 8) * 8):,} GPUs would hold it if weights, gradients and state are sharded over all"
    ways = ["a shorter sequence", "more tp or cp", *(["checkpoint=full"] if option.checkpoint != "full" else [])]
    return f"what comes and goes alone does not fit: take {' or '.join([', '.join(ways[:-1]), ways[-1]])}"


def _many(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def _speed(option: PlanOption) -> str:
    tokens = option.tokens_per_second_per_gpu
    if tokens is None:
        return f"{units.si(option.samples_per_second)} samples/s"
    return f"{tokens:,.0f} tokens/s a GPU, {option.tflops_per_gpu:,.0f} TFLOP/s"


def _parts(name: str, parts: Mapping[str, float], say: Callable[[float], str], least: float = 0) -> list[str]:
    """The parts of a whole, the largest first, without those below the share `least`."""
    whole = sum(parts.values()) or 1
    ordered = sorted((item for item in parts.items() if item[1] >= least * whole), key=lambda item: -item[1])
    text = ", ".join(f"{kind} {say(value)} ({units.percent(value / whole)})" for kind, value in ordered)
    return [f"{name} {say(whole)}: {text}"]


def _grid(plan: Plan, options: Sequence[PlanOption]) -> Grid:
    """A row for each option; one that serves has sequences and no way of checkpointing."""
    served = "serve" in plan.settings
    named: dict[str, Callable[[PlanOption], str]] = {
        GPUS: lambda one: f"{one.gpus:,}",
        "mesh": lambda one: one.mesh_text,
        "sequences" if served else "micro-batch": lambda one: f"{one.micro_batch:,}",
        "accumulate": lambda one: str(one.accumulate),
        "checkpoint": lambda one: one.checkpoint,
        "peak": lambda one: units.size(one.peak_bytes),
        "of GPU": lambda one: units.percent(one.peak_bytes / one.room) if one.fits else "too large",
        FIRST: lambda one: units.seconds(one.first_token) if one.first_token else "",
        "predicted step": lambda one: units.seconds(one.step),
        "MFU": lambda one: units.percent(one.mfu),
        "bound": lambda one: one.bound,
        "samples/s" if plan.best.tokens is None else "tokens/s/GPU": _rate,
    }
    left_out = {"accumulate", "checkpoint"} if served else {FIRST}
    if len(plan.sizes) == 1:
        left_out.add(GPUS)
    shown = [name for name in named if name not in left_out]
    return Grid(
        tuple(
            Column(name, tuple(map(named[name], options)), keep=_keep(name), right=name not in WORDS) for name in shown
        )
    )


def _keep(column: str) -> int:
    """Columns with the lowest number leave a narrow table first."""
    return FIRST_TO_LEAVE.index(column) if column in FIRST_TO_LEAVE else len(FIRST_TO_LEAVE)


def _table(plan: Plan, options: Sequence[PlanOption], width: int) -> list[str]:
    """The grid of options as text, without a rule below its head, and what of it has no room."""
    grid = _grid(plan, options)
    head, _rule, *rows = grid_lines(grid.fitted(width))
    hint = grid.left_out(width)
    return [head, *rows, *([hint] if hint else [])]


def label(plan: Plan, option: PlanOption) -> str:
    """What an option is, in as few words as tell it from the others of its plan."""
    words = [_many(option.gpus, "GPU")] if len(plan.sizes) > 1 else []
    if "serve" in plan.settings:
        return ", ".join([*words, option.mesh_text, _many(option.micro_batch, "sequence")])
    checkpoint = [option.checkpoint] if option.checkpoint != "none" else []
    return ", ".join([*words, option.mesh_text, f"{option.micro_batch:,} x {option.accumulate:,}", *checkpoint])


def _best_of_each(plan: Plan) -> list[PlanOption]:
    return [plan.best_of(size) for size in plan.sizes]


def _rate(option: PlanOption) -> str:
    tokens = option.tokens_per_second_per_gpu
    return f"{option.samples_per_second:,.1f}" if tokens is None else f"{tokens:,.0f}"


def plan_html(plan: Plan) -> str:
    """The plan as one page that needs nothing beside it."""
    first, *rest = _headline(plan)
    told = "".join(f'<p class="soft">{escape(line.strip())}</p>' for line in (rest[1:] if plan.best.fits else rest))
    top = head(_where(plan), _settings(plan), first, _tiles(plan.best))
    return standalone(f"Plan of {plan.target}", f"{top}{told}{_options(plan)}", BARS)


def plan_body(plan: Plan) -> str:
    """Everything below the title, as a notebook shows it."""
    return "".join(f"<p>{escape(line.strip())}</p>" for line in _headline(plan)) + _options(plan)


def _tiles(best: PlanOption) -> list[tuple[str, str, str]]:
    """The figures of the best option that a reader asks for first: label, value, note; one that does not fit has no speed."""
    memory = ("Peak memory", units.size(best.peak_bytes), f"of {units.size(best.room)} free on a GPU")
    if not best.fits:
        return [memory]
    part, spent = max(best.parts.items(), key=lambda item: item[1])
    first = ("Predicted first token", units.seconds(best.first_token), "") if best.first_token else None
    per = "samples" if best.tokens is None else "tokens"
    rate = best.tokens_per_second_per_gpu or best.samples_per_second
    on = f"on {'' if best.tokens is None or best.gpus == 1 else 'each of '}{_many(best.gpus, 'GPU')}"
    return [
        *([first] if first else []),
        ("Predicted step", units.seconds(best.step), f"{units.percent(spent / best.step)} of it is {part}"),
        (f"{per.capitalize()} a second", units.si(rate), on),
        ("MFU", units.percent(best.mfu), f"{best.tflops_per_gpu:,.3g} TFLOP/s a GPU"),
        memory,
    ]


def _options(plan: Plan) -> str:
    """The options as rows, and what is assumed."""
    best = plan.best
    kinds = coloured([option.memory for option in plan.options])
    parts = coloured([option.parts for option in plan.options])
    slowest = max(
        (option.step / option.samples for option in plan.options if option.fits), default=best.step / best.samples
    )
    per = f"predicted step a {'sequence' if 'serve' in plan.settings else 'sample'}"

    def drawn(options: Sequence[PlanOption]) -> str:
        memory = [_bar(option.memory, kinds, option.room) for option in options]
        seconds = [_bar(option.parts, parts, slowest * option.samples) for option in options]
        rows = [f' class="{"" if option.fits else "no"}" title="{escape(option.why)}"' for option in options]
        return table(_grid(plan, options), {"memory": memory, per: seconds}, rows)

    each = f"<h2>Best of each number of GPUs</h2>{drawn(_best_of_each(plan))}<h2>All options</h2>"
    body = [
        f"<p>Memory, against what a GPU has:{_keys(kinds)}</p><p>{per.capitalize()}:{_keys(parts)}</p>",
        *([each] if len(plan.sizes) > 1 else []),
        drawn(plan.options),
        "<h2>Assumed</h2>",
        f'<ul class="soft">{"".join(f"<li>{escape(line)}</li>" for line in best.assumptions)}</ul>',
    ]
    return "".join(body)


def coloured(options: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """A colour for each part that an option has: that of the report page if it is a kind of memory."""
    names = dict.fromkeys(name for parts in options for name in parts)
    kinds = MEMORY_HUES if "parameters" in names else {}
    return {name: kinds.get(name, GREY if kinds else PIECES[at % len(PIECES)]) for at, name in enumerate(names)}


def _bar(parts: Mapping[str, float], colours: Mapping[str, str], full: float) -> str:
    """A cell with parts as coloured pieces of a bar that is full at `full`, and shrunk to it if they are more."""
    scale = max(full, sum(parts.values())) or 1.0
    pieces = "".join(
        f'<i style="width:{100 * parts[kind] / scale:.2f}%;background:{colour}" title="{escape(kind)}"></i>'
        for kind, colour in colours.items()
        if parts.get(kind)
    )
    return f'<td><div class="bar">{pieces}</div></td>'


def _keys(colours: Mapping[str, str]) -> str:
    return "".join(
        f' <span class="key"><i style="background:{colour}"></i>{escape(kind)}</span>'
        for kind, colour in colours.items()
    )
