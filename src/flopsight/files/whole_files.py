"""Files are written whole or not at all; what is not a file is neither read nor written."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from ..errors import OutputError

STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/")
"""Names that stand for an open stream of this process."""


def read_text(path: str | Path) -> str:
    """The text of a regular file; raises OSError or UnicodeDecodeError if there is none.

    A pipe or a device is refused: reading it could wait, or go on, forever.
    """
    path = Path(path)
    _check_regular(path)
    return path.read_text(encoding="utf-8")


def read_first_line(path: str | Path) -> str:
    """The first line of a regular file, like `read_text`."""
    path = Path(path)
    _check_regular(path)
    with path.open(encoding="utf-8") as file:
        return file.readline()


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file as `write_bytes` does."""
    return write_bytes(path, as_bytes(text))


def as_bytes(text: str) -> bytes:
    """A text as its file holds it."""
    return text.encode("utf-8", "backslashreplace")


def write_bytes(path: str | Path, contents: bytes) -> Path:
    """Write a file, so that at every moment the old contents or the new ones are there; folders are made.

    A link keeps pointing to its file, and a file keeps its permissions. Streams like /dev/stdout are written as they
    are. What cannot be written is one sentence.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _is_stream(path):
            path.write_bytes(contents)
        else:
            _replace(Path(os.path.realpath(path)), contents)
    except (OSError, ValueError) as problem:  # a name with a NUL in it is a ValueError
        why = getattr(problem, "strerror", None) or problem
        raise OutputError(f"{path} cannot be written: {why}.") from None
    return path


def check_writable(path: str | Path) -> None:
    """Refuse a file that cannot be written, as far as that can be known before it is."""
    try:
        why = _obstacle(Path(path))
    except OSError as problem:
        why = problem.strerror or str(problem)
    if why:
        raise OutputError(f"{path} cannot be written: {why}.")


def _check_regular(path: Path) -> None:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise OSError(f"it is {_kind(mode)}, not a file")


def _obstacle(path: Path) -> str:
    """What keeps a file from being written; nothing if nothing does."""
    if _is_stream(path):
        return ""
    if path.exists() and not path.is_file():
        return f"it is {_kind(path.stat().st_mode)}, not a file"
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    writable = folder.is_dir() and os.access(folder, os.W_OK)
    return "" if writable else f"{folder} is not a folder that it can be written in"


def _replace(path: Path, contents: bytes) -> None:
    """Write a new file beside the old one, then put it in its place."""
    if path.is_symlink():
        raise OSError("it is a link that leads to itself")
    old = path.stat() if path.exists() else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(f"it is {_kind(old.st_mode)}, not a file")
    new = path.with_name(f".{path.name[:100]}.{uuid4().hex[:8]}.part")
    try:
        with new.open("xb") as file:
            file.write(contents)
        if old is not None:
            new.chmod(stat.S_IMODE(old.st_mode))
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def _is_stream(path: Path) -> bool:
    """Whether a name is a device that takes text as it comes, or a stream of this process."""
    if str(path).startswith(STREAMS):
        return True
    return path.exists() and stat.S_ISCHR(path.stat().st_mode)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
