"""What a command does with a profile: print it in a format, write it to a file by its suffix."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..tree import Profile

TOP = {
    "tree": "max_rows",
    "table": "max_rows",
    "memory": "max_rows",
    "markdown": "max_rows",
    "deepspeed": "top_modules",
    "aprofiler": "top_modules",
}
"""What `--top` limits in a format."""
SUFFIXES = (".json", ".html", ".md", ".txt", ".csv", ".trace.json")
TIMELINE = ".trace.json"


@dataclass(frozen=True)
class View:
    """A format with its options, and a file to write; refused before any work is done where it cannot be."""

    format: str = "tree"
    depth: int | None = None
    top: int | None = None
    full: bool = False
    width: int | None = None
    sort: str | None = None
    output: Path | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a profile."""
        from ..render import check

        check(self.format)
        if self.top is not None and self.format not in TOP:
            raise InputError(f"The format {self.format} shows everything; --top is for {', '.join(TOP)}.")
        check(self.format, **self.options)
        if self.output is not None:
            _check_output(self.output)

    @property
    def timeline(self) -> bool:
        """Whether a timeline is wanted."""
        return self.format == "trace" or (self.output is not None and self.output.name.endswith(TIMELINE))

    @property
    def options(self) -> dict[str, Any]:
        """What the renderer is told; None is not told at all."""
        told = {"depth": self.depth, "full": self.full or None, "width": self.width, "sort": self.sort}
        return told | ({TOP[self.format]: self.top} if self.top is not None else {})

    def present(self, profile: Profile) -> None:
        """Print the profile, and write it where a file was named."""
        if sys.stdout.isatty():
            from rich.console import Console

            from ..render import to_console

            to_console(profile, self.format, Console(), **self.options)
        else:
            _out(profile.render(self.format, **self.options))
        if self.output is not None:
            sys.stdout.flush()
            self._write(profile, self.output)

    def _write(self, profile: Profile, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.name.endswith(TIMELINE):
                path.write_text(profile.render("trace"), encoding="utf-8")
            elif path.suffix == ".json":
                profile.save(path)
            elif path.suffix == ".html":
                profile.to_html(path)
            else:
                path.write_text(self._text(profile, path.suffix), encoding="utf-8")
        except OSError as problem:
            raise InputError(f"{path} cannot be written: {problem.strerror or problem}.") from None
        print(f"Saved {path}", file=sys.stderr)

    def _text(self, profile: Profile, suffix: str) -> str:
        if suffix == ".txt":
            return profile.render(self.format, **self.options)
        return profile.render("markdown" if suffix == ".md" else "csv")


def _check_output(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise InputError(f"The suffix of -o {path} says no format; it can be {', '.join(SUFFIXES)}.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
        raise InputError(f"{path} cannot be written: {folder} is no folder to write it in.")


def _out(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
