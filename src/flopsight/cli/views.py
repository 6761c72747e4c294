"""What a command does with a profile: print it in a format, write it to files by their suffixes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.whole_files import check_writable, write_bytes
from ..render import Drawing, prepare
from ..render.formats import FORMATS, PRINTED, find_by_suffix, find_printed
from ..results.generation import Generation
from ..results.job import Job
from ..results.profile import Profile


@dataclass(frozen=True)
class View:
    """What is printed, and the files that are written beside it; `prepare_view` checks all of it."""

    printed: Drawing
    files: tuple[tuple[Path, Drawing], ...] = ()

    @property
    def timeline(self) -> bool:
        """Whether a timeline is wanted."""
        return any(drawing.format.needs_timeline for drawing in (self.printed, *(drawn for _, drawn in self.files)))

    def present(self, profile: Profile | Job | Generation) -> None:
        """Write the profile to the files that were named, all or none if one cannot be drawn, then print it."""
        for path, contents in [(path, drawing.contents(profile, path)) for path, drawing in self.files]:
            write_bytes(path, contents)
        if sys.stdout.isatty():
            from rich.console import Console

            self.printed.show(profile, Console())
            sys.stdout.flush()
        else:
            print_text(self.printed.text(profile))
        say_saved([path for path, _ in self.files])


def prepare_view(
    format: str = "tree", outputs: Sequence[Path] = (), *, top: int | None = None, on: str | None = None, **given: Any
) -> View:
    """Check a format, its options (`depth`, `full`, `width`, ...) and the files to write, before any work is done."""
    found = find_printed(format)
    if top is not None and found.top is None:
        limited = (name for name, known in FORMATS.items() if known.top)
        raise InputError(f"The format {format} shows everything; --top is for {', '.join(limited)}.")
    if on is not None:
        _check_device(format, on, outputs)
    options = {name: value for name, value in given.items() if value is not None and value is not False}
    for name in options:
        if name not in found.options:
            taking = (f"-f {other}" for other in PRINTED if name in FORMATS[other].options)
            raise InputError(f"--{name} is not for -f {format}; it is for {', '.join(taking)}.")
    options |= {"on": on} if "on" in found.options else {}
    if top is not None and found.top is not None:
        options[found.top] = top
    printed = prepare(format, **options)
    return View(printed, tuple((path, _for_file(path, printed, on)) for path in outputs))


def _check_device(format: str, on: str, outputs: Sequence[Path]) -> None:
    """Refuse a device that is not in the table, or a run of which nothing shows limits."""
    from ..hardware.named import named_device

    named_device(on)
    drawn = [FORMATS[format], *(find_by_suffix(path) for path in outputs)]
    if not any(known is not None and "on" in known.options for known in drawn):
        showing = [f"-f {name}" for name in PRINTED if "on" in FORMATS[name].options]
        raise InputError(
            f"The format {format} shows no limits; --on is for {', '.join(showing)}, -o page.html and -o roofline.svg."
        )


def _for_file(path: Path, printed: Drawing, on: str | None) -> Drawing:
    """How a file is drawn: in the format of its suffix, with those of the given options that this format has."""
    found = find_by_suffix(path)
    check_writable(path)
    if found is not None and found.picture:
        from ..render.pictures import check_installed

        check_installed()
    if found is None:
        return printed
    known = set(found.options)
    if found is FORMATS["html"]:
        known.discard("depth")  # a page holds every module and unfolds
    given = {**printed.options, **({"on": on} if on is not None else {})}
    return Drawing(found, {name: value for name, value in given.items() if name in known})


def print_text(text: str) -> None:
    """Print a text, with one line end; what follows on stderr comes after it."""
    print(text, end="" if text.endswith("\n") else "\n", flush=True)


def save_and_print(text: str, paths: Sequence[Path], save: Callable[[Path], Path]) -> None:
    """Write the files, then print the text and name them."""
    saved = [save(path) for path in paths]
    print_text(text)
    say_saved(saved)


def say_saved(paths: Sequence[Path]) -> None:
    """Name the files that were written: after what is printed, since a reader of a pipe may close it early."""
    for path in paths:
        print(f"Saved {path}", file=sys.stderr)
