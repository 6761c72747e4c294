"""Saves the profile of a script to a file, and writes its text to stderr or to another file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from ..analysis.budget import check as broken_budgets
from ..analysis.budget import parse_budget
from ..analysis.phase_filter import only
from ..errors import FlopsightError, InputError
from ..files.printable import one_line
from ..files.whole_files import check_writable, write_bytes, write_text
from ..progress import begin_line
from ..render import Drawing
from ..render.formats import Format, find, find_by_suffix
from ..results.job import Job
from ..results.profile import Profile
from ..results.records import PHASES


@dataclass(frozen=True)
class Delivery:
    """Where a profile goes and how it is drawn; settings that cannot work are refused before the script runs."""

    path: Path
    """The file that the profile is saved to; with several ranks, each rank adds its number to the name."""
    formats: tuple[str, ...] = ("tree",)
    depth: int = -1
    top_modules: int = 1
    detailed: bool = True
    text_file: str | None = None
    """The file for the text; None is stderr."""
    phases: tuple[str, ...] = PHASES
    """The parts of the step that are shown and saved."""
    strict: bool = False
    budgets: Mapping[str, Any] = field(default_factory=dict)
    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def __post_init__(self) -> None:
        if self.path.suffix != ".json":
            raise InputError(f"-o {self.path} must end in .json; `flopsight show` makes pages and tables of it.")
        asked = find_by_suffix(self.path)
        if asked is not None and asked.needs_timeline:
            raise InputError(
                f"-o {self.path} asks for a timeline, which a script's step does not have. Name another .json file, or "
                f"take a timeline of the model: flopsight profile ... -o {self.path.name}"
            )
        for path in (self.path, *([] if self.text_file is None else [Path(self.text_file)])):
            check_writable(path)
        parse_budget(self.budgets)
        for drawn in (drawing.format for drawing in self._drawings):
            if drawn.needs_timeline:
                raise InputError(
                    f"A script's step has no timeline for a {drawn.name}. Take one: flopsight profile ... -o p{drawn.suffix}"
                )

    def deliver(self, profile: Profile) -> None:
        """Save and show a profile. Nothing that goes wrong here may stop the user's script."""
        try:
            profile = only(profile, self.phases)
            path = self._save(profile)
            from ..distributed.gather import gather_if_many  # imports torch, which naming a script does not need

            job = gather_if_many(profile)
            if profile.world.rank == 0:
                self._show(profile if job is None else job)
                self._judge(profile)
                written = [path, *self._files(path), *([] if job is None else [job.save(self._named("job"))])]
                self.say(f"Saved {' and '.join(map(str, written))}")
        except Exception as problem:
            self.excuse(problem)

    def excuse(self, problem: Exception) -> None:
        """Print why there is no profile."""
        from ..distributed.gather import gather_if_many

        gather_if_many(problem)
        kind = "" if isinstance(problem, FlopsightError) else f"Profiling failed: {type(problem).__name__}: "
        self.say(f"{kind}{problem}")

    def say(self, sentence: str) -> None:
        """Print one line to stderr, unless the script has closed it."""
        with suppress(OSError, ValueError):
            print(f"flopsight: {one_line(sentence)}", file=self.stream, flush=True)

    def _save(self, profile: Profile) -> Path:
        path = self.path
        if profile.world.size > 1:
            path = self._named(f"rank{profile.world.rank}")
        profile.save(path)
        for file, drawing in self._files(path).items():
            write_bytes(file, drawing.contents(profile, file))
        return path

    def _named(self, whose: str) -> Path:
        return self.path.with_stem(f"{self.path.stem}-{whose}")

    @cached_property
    def _drawings(self) -> tuple[Drawing, ...]:
        """The formats with their options, checked when the delivery is made."""
        return tuple(Drawing(known, known.checked(self._options(known))) for known in map(find, self.formats))

    def _files(self, path: Path) -> dict[Path, Drawing]:
        """The formats that are files and not text, each beside the saved profile."""
        drawn = [drawing for drawing in self._drawings if drawing.format.file_only]
        return {path.with_suffix(drawing.format.suffix): drawing for drawing in drawn}

    def _show(self, profile: Profile | Job) -> None:
        drawings = [drawing for drawing in self._drawings if not drawing.format.file_only]
        if self.text_file is not None:
            write_text(self.text_file, "\n".join(drawing.text(profile) for drawing in drawings))
            return
        if drawings:
            begin_line(self.stream)
        for drawing in drawings:
            self._draw(profile, drawing)

    def _draw(self, profile: Profile | Job, drawing: Drawing) -> None:
        if self.stream.isatty():
            from rich.console import Console

            drawing.show(profile, Console(file=self.stream))
        else:
            print(drawing.text(profile).rstrip("\n"), file=self.stream)

    def _options(self, format: Format) -> dict[str, Any]:
        """The settings that a format can follow; a depth that it cannot follow is refused."""
        depth = {"depth": self.depth} if self.depth >= 0 else {}
        detail = {"top_modules": self.top_modules, "detailed": self.detailed}
        return depth | {name: value for name, value in detail.items() if name in format.options}

    def _judge(self, profile: Profile) -> None:
        """Print broken budgets and, if strict, uncounted ops; the exit code stays the script's own."""
        for line in broken_budgets(profile, self.budgets):
            self.say(f"FAILED {line}")
        if self.strict and not profile.coverage.complete:
            self.say(
                f"FAILED {len(profile.coverage.unknown)} ops are not counted: {', '.join(profile.coverage.unknown)}."
            )
