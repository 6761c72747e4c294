"""What a user sees of a profiled script: a file with the profile, and its text on stderr or in another file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ..analysis.budget import check as broken_budgets
from ..analysis.budget import limits
from ..analysis.phase_filter import only
from ..errors import FlopsightError, InputError
from ..records import PHASES
from ..render import check as check_format
from ..render import render, to_console
from ..tree import Profile

PAGE = "html"
"""The one format that is a file and not text."""
PAGE_SUFFIX = ".html"
TIMELINE = "trace"
"""The one format that needs a timeline, which a window of somebody's steps does not have."""
TIMELINE_SUFFIX = ".trace.json"
BY_DEPTH = ("deepspeed", "aprofiler")
"""Formats that name a few modules at each depth."""


@dataclass(frozen=True)
class Report:
    """Where a profile goes and how it is drawn; refused before the script runs where it cannot be."""

    path: Path
    """The file that the profile is saved to; beside others of a job, every rank has its own."""
    formats: tuple[str, ...] = ("tree",)
    depth: int = -1
    top_modules: int = 1
    detailed: bool = True
    text_file: str | None = None
    """Where the text goes; None is stderr."""
    phases: tuple[str, ...] = PHASES
    """The parts of the step that are shown and saved."""
    strict: bool = False
    budgets: Mapping[str, Any] = field(default_factory=dict)
    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def __post_init__(self) -> None:
        """Check what can be checked without a profile."""
        if self.path.suffix != ".json":
            raise InputError(f"-o {self.path} must end in .json; `flopsight show` makes pages and tables of it.")
        if self.path.name.endswith(TIMELINE_SUFFIX):
            raise InputError(
                f"-o {self.path} asks for a timeline, which a script's step does not have. Name another .json file, or "
                f"take a timeline of the model: flopsight profile ... -o {self.path.name}"
            )
        for path in (self.path, *([] if self.text_file is None else [Path(self.text_file)])):
            _check_writable(path)
        limits(self.budgets)
        for name in self.formats:
            if name == TIMELINE:
                raise InputError(
                    "A script's step has no timeline for a trace. Take one: flopsight profile ... -o p.trace.json"
                )
            if name != PAGE:
                check_format(name, **self._options(name))

    def deliver(self, make: Callable[[], Profile]) -> None:
        """Save and show a profile. Nothing that goes wrong here may stop the user's script."""
        try:
            profile = only(make(), self.phases)
            path = self._save(profile)
            if profile.world.rank == 0:
                self._show(profile)
                self._judge(profile)
                self.say(f"Saved {path}{f' and {path.with_suffix(PAGE_SUFFIX)}' if PAGE in self.formats else ''}")
        except Exception as problem:
            self.excuse(problem)

    def excuse(self, problem: Exception) -> None:
        """Say why there is no profile; the script goes on."""
        kind = "" if isinstance(problem, FlopsightError) else f"Profiling failed: {type(problem).__name__}: "
        self.say(f"{kind}{problem}")

    def say(self, sentence: str) -> None:
        """One line on stderr, where the script has left it open."""
        with suppress(OSError, ValueError):
            print(f"flopsight: {' '.join(sentence.split())}", file=self.stream, flush=True)

    def _save(self, profile: Profile) -> Path:
        path = self.path
        if profile.world.size > 1:
            path = path.with_stem(f"{path.stem}-rank{profile.world.rank}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            profile.save(path)
            if PAGE in self.formats:
                profile.to_html(path.with_suffix(PAGE_SUFFIX))
        except OSError as problem:
            raise InputError(f"{path} cannot be written: {problem.strerror or problem}.") from None
        return path

    def _show(self, profile: Profile) -> None:
        formats = [name for name in self.formats if name != PAGE]
        if self.text_file is not None:
            path = Path(self.text_file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(render(profile, name, **self._options(name)) for name in formats))
            return
        for name in formats:
            self._draw(profile, name)

    def _draw(self, profile: Profile, format: str) -> None:
        if self.stream.isatty():
            from rich.console import Console

            to_console(profile, format, Console(file=self.stream), **self._options(format))
        else:
            print(render(profile, format, **self._options(format)).rstrip("\n"), file=self.stream)

    def _options(self, format: str) -> dict[str, Any]:
        if format in BY_DEPTH:
            return {"depth": self.depth, "top_modules": self.top_modules, "detailed": self.detailed}
        return {"depth": self.depth} if self.depth >= 0 else {}

    def _judge(self, profile: Profile) -> None:
        """Say what breaks a budget or is not counted; the exit code stays the script's own."""
        for line in broken_budgets(profile, self.budgets):
            self.say(f"FAILED {line}")
        if self.strict and not profile.coverage.complete:
            self.say(
                f"FAILED {len(profile.coverage.unknown)} ops are not counted: {', '.join(profile.coverage.unknown)}."
            )


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, as far as that can be known before it is."""
    if path.is_dir():
        raise InputError(f"{path} cannot be written: it is a folder.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: {folder} is no folder to write it in.")
