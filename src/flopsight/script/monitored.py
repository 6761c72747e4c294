"""A script from its first line to its exit code, with every step of its training monitored."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FlopsightError
from ..files.printable import one_line
from ..progress import begin_line
from .import_hook import when_imported
from .run_script import ELSEWHERE
from .search import Search
from .start import Program, start_program

HIDDEN = "A function that torch compiled hides the calls in it: compile the model instead."

if TYPE_CHECKING:
    from ..loop.monitor.monitoring import Monitor


def monitor_script(program: Program, search: Search, path: Path, every: int) -> int:
    """Run the program, write a line for each interval of its steps, and answer with the script's own exit code."""
    process = os.getpid()
    watched: list[Monitor | None] = []
    path = _for_this_rank(path)

    def watch() -> None:
        try:
            from ..loop.monitor.monitoring import Monitor

            path.unlink(missing_ok=True)
            live = Monitor([], every=every, to=[path, *([sys.stderr] if _rank() == 0 else [])], admits=search.admits)
            watched.append(live.__enter__())
        except Exception as problem:
            _say(str(problem) if isinstance(problem, FlopsightError) else f"{type(problem).__name__}: {problem}")
            watched.append(None)

    with when_imported("torch", watch):
        ending = start_program(program)
    if os.getpid() != process:
        return ending.code  # a script may fork, and the child may come here too
    if not watched:
        _say(f"{program.label} did not import torch, so nothing was monitored. {ELSEWHERE}")
        return ending.code
    live = watched[0]
    if live is None:
        return ending.code
    live.__exit__(None, ending.problem, None)
    if _rank() == 0:
        _report(live, program, path)
    return ending.code


def _report(live: Monitor, program: Program, path: Path) -> None:
    run = live.summary()
    if not run.steps:
        if live.updates_without_a_model:
            _say(f"{program.label} called no model that was seen, so nothing was monitored. {HIDDEN}")
        else:
            _say(f"{program.label} ended without a step of any optimizer, so nothing was monitored. {ELSEWHERE}")
        return
    begin_line(sys.stderr)
    with suppress(OSError, ValueError):
        print(f"{run}\n", file=sys.stderr)
    _say(f"Saved {path}; draw it: flopsight show {path.name} -o run.html")


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _for_this_rank(path: Path) -> Path:
    many = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return path.with_stem(f"{path.stem}-rank{_rank()}") if many else path


def _say(sentence: str) -> None:
    with suppress(OSError, ValueError):
        print(f"flopsight: {one_line(sentence)}", file=sys.stderr, flush=True)
