"""What a command does with a profile: print it in a format, write it to a file by its suffix."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..tree import Profile

TEXT_SUFFIXES = {".txt": "tree", ".md": "markdown", ".csv": "csv"}
SUFFIXES = (".json", ".html", *TEXT_SUFFIXES)


def check_output(path: Path | None) -> None:
    """Refuse an output file that nothing could be written to, before any work is done."""
    if path is not None and path.suffix not in SUFFIXES:
        raise InputError(f"-o {path} has a suffix that says no format; it can be {', '.join(SUFFIXES)}.")


def check_format(format: str) -> None:
    """Refuse an unknown format before any work is done."""
    from ..render import formats, unknown_format

    if format not in formats():
        raise unknown_format(format)


def write(profile: Profile, path: Path, **options: Any) -> None:
    """Write a profile to a file in the format of its suffix, and say so on stderr."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            profile.save(path)
        elif path.suffix == ".html":
            profile.to_html(path)
        else:
            path.write_text(profile.render(TEXT_SUFFIXES[path.suffix], **options) + "\n", encoding="utf-8")
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {problem.strerror or problem}.") from None
    note(f"Saved {path}")


def note(text: str) -> None:
    """A remark beside the result, on stderr."""
    print(text, file=sys.stderr)
