"""Every module against its limit: its time, the least time, what binds it, and how much could be won."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import units
from ..analysis.folding import shortened
from ..analysis.headline import ceilings_text, headline, limit_unknown
from ..analysis.limits.bounds import BoundRow, bound_rows
from ..analysis.limits.predict import predict
from ..analysis.limits.roofline import ceilings_for, profile_limit
from ..results.profile import Profile
from .page import Column, Heading, Lines, Page
from .summary import caveat_lines, coverage_lines, title
from .tree import legend, tree_grid


def page(
    profile: Profile, *, on: str | None = None, depth: int | None = None, max_rows: int | None = 60, full: bool = False
) -> Page:
    """What the view shows, on the profile's own device or on a named one; `full` draws every module."""
    ceilings = ceilings_for(profile, on)
    if ceilings is None or profile_limit(profile, on) is None:
        return [Heading(title(profile, on)), Lines((f"No limits: {limit_unknown(profile, on)}",), "yellow")]
    root = shortened(profile.root, depth, max_rows, full=full)
    rows = bound_rows(root, profile, ceilings, timed=on is None)
    return [
        Heading(title(profile, on)),
        Lines(tuple(headline(profile, on))),
        tree_grid([row.row for row in rows], _columns(rows)),
        Lines(
            (*legend([row.row for row in rows], "bound"), *_legend(rows), f"ceilings: {ceilings_text(ceilings)}"), "dim"
        ),
        Lines(_predicted(profile, on)),
        Lines(coverage_lines(profile), "green" if profile.coverage.complete else "yellow"),
        Lines(caveat_lines(profile), "yellow"),
    ]


def _columns(rows: Sequence[BoundRow]) -> list[Column]:
    found = []
    if any(row.seconds is not None for row in rows):
        found.append(Column("time", _cells(rows, lambda row: row.seconds, units.seconds), keep=90, style="magenta"))
    found.append(Column("limit", _cells(rows, lambda row: row.limit, units.seconds), keep=95, style="cyan"))
    if any(row.seconds is not None for row in rows):
        found.append(Column("of time", tuple(_share(row) for row in rows), keep=85))
        found.append(Column("to win", _cells(rows, lambda row: row.win, units.seconds), keep=80))
    found.append(Column("bound by", tuple(_bound(row) for row in rows), keep=88, right=False))
    found.append(Column("fused limit", _cells(rows, lambda row: row.fused, units.seconds), keep=30))
    found.append(Column("FLOP/byte", _cells(rows, lambda row: row.intensity, units.si), keep=40))
    if any(row.rate is not None for row in rows):
        found.append(Column("FLOP/s", _cells(rows, lambda row: row.rate, units.si), keep=35))
    return found


def _cells(
    rows: Sequence[BoundRow], read: Callable[[BoundRow], float | None], text: Callable[[float], str]
) -> tuple[str, ...]:
    return tuple("" if (value := read(row)) is None else text(value) for row in rows)


def _share(row: BoundRow) -> str:
    return "" if row.share is None else units.percent(row.share) + ("!" if row.too_fast else "")


def _bound(row: BoundRow) -> str:
    return (row.bound or "") + ("*" if row.cached and row.bound == "memory" else "")


def _legend(rows: Sequence[BoundRow]) -> tuple[str, ...]:
    lines = ["limit: every op at the peak of its dtype or at full bandwidth, whichever takes longer; unfused bytes"]
    if any(row.fused is not None for row in rows):
        lines.append("fused limit: the module moves its inputs, parameters and outputs alone")
    if any(row.too_fast for row in rows):
        lines.append(
            "!: faster than its limit, so its time varies, a cache held its data, or the ceilings are those of a busier moment"
        )
    if any(row.cached and row.bound == "memory" for row in rows):
        lines.append("*: its data fits the cache, so it may be faster than this limit")
    return tuple(lines)


def _predicted(profile: Profile, on: str | None) -> tuple[str, ...]:
    guess = predict(profile) if on is None else None
    if guess is None:
        return ()
    parts = f"kernels {units.seconds(guess.kernels)}, host {units.seconds(guess.host)}"
    return (f"predicted step {units.seconds(guess.step)}, from efficiencies measured on this machine: {parts}",)
