"""A script from its first line to its exit code, with a window of its steps profiled on the way."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from .import_hook import when_imported
from .output import Delivery
from .search import OPTIMIZER, Search
from .start import Program, start_program

if TYPE_CHECKING:
    from ..results.profile import Profile
    from .script_loop import ScriptLoop

ELSEWHERE = (
    "What runs in processes that the script starts is not seen: start them with `torchrun -m flopsight run`, or put "
    "`flopsight run` into the command that starts them."
)


def profile_script(program: Program, search: Search, delivery: Delivery) -> int:
    """Run the program, profile the steps looked for, and answer with the script's own exit code."""
    process = os.getpid()
    watched: list[ScriptLoop | None] = []

    def deliver(profile: Profile) -> None:
        delivery.deliver(_named(profile, program))

    def watch() -> None:
        try:
            from .script_loop import ScriptLoop

            loop = ScriptLoop(search, on_profile=deliver, on_failure=delivery.excuse)
            loop.watch()
        except Exception as problem:
            delivery.excuse(problem)
            watched.append(None)
        else:
            watched.append(loop)

    with when_imported("torch", watch):
        ending = start_program(program)
    if os.getpid() != process:
        return ending.code  # a script may fork, and the child may come here too
    if not watched:
        advice = ELSEWHERE if ending.problem is None else ""
        delivery.say(f"{program.label} did not import torch, so nothing was profiled. {advice}".rstrip())
        return ending.code
    loop = watched[0]
    if loop is None:
        return ending.code
    loop.end(ending.problem)
    if not loop.delivered and loop.rank == 0:
        advice = ELSEWHERE if ending.problem is None else ""
        delivery.say(f"{program.label} ended {_seen(loop, search, advice)}".rstrip())
    return ending.code


def _named(profile: Profile, program: Program) -> Profile:
    """Name the root after the script if it is only a holder of several models."""
    root = profile.root
    return replace(profile, root=replace(root, kind=program.label)) if root.kind == "recording" else profile


def _seen(loop: ScriptLoop, search: Search, elsewhere: str) -> str:
    """Say how far the script came, and what to do about it."""
    name = loop.model_name
    if loop.cycle.steps:
        return f"after {_many(loop.cycle.steps, 'step')}, {_too_early(loop.cycle.steps, search)}"
    if loop.forwards and loop.per != OPTIMIZER:
        return f"after {_many(loop.forwards, 'forward')} of {name}, {_too_early(loop.forwards, search)}"
    if loop.forwards:
        return (
            f"after {_many(loop.forwards, 'forward')} of {name} without an optimizer's step, so nothing was profiled. "
            f"If a forward is a step, say so: --per forward."
        )
    if search.per == OPTIMIZER:
        return f"without a step of any optimizer, so nothing was profiled. {elsewhere}"
    if name:
        return f"within the first forward of {name}, so nothing was profiled."
    return f"without a call of any {search.wanted}{loop.others}, so nothing was profiled. {elsewhere}"


def _too_early(steps: int, search: Search) -> str:
    advice = f"Choose an earlier one: --step {max(0, steps - 2)}." if steps else ""
    return f"before step {search.first} (counted from 0) was over, so nothing was profiled. {advice}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
