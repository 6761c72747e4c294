"""What pages show of a command's output: held to the output by a test, and written anew with `make outputs`."""

import re
import shlex
import subprocess
import sys
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import NamedTuple

from docs.pages import ROOT, text

PAGES = ("docs/plan.md", "docs/serving.md")
"""Those whose commands print the same on every machine."""
COMMAND_AND_TEXT = re.compile(r"```bash\n(?P<commands>[^`]*)```\n\n```text\n(?P<shown>[^`]*)```")
WIDTH = 118
"""A line that would be longer with the next word was wrapped."""


class Example(NamedTuple):
    """A command of a page and what the page shows of its output."""

    words: list[str]
    shown: str
    start: int
    """Where the shown text begins on the page."""


def examples(page):
    return [
        Example(shlex.split(match["commands"].splitlines()[0], comments=True), match["shown"], match.start("shown"))
        for match in COMMAND_AND_TEXT.finditer(text(page))
    ]


def missing(shown, output):
    """The lines shown that an output does not have, in its order."""
    lines = iter(output.splitlines())
    return [line for line in shown.splitlines() if line.strip() and not any(line == other for other in lines)]


def refreshed(shown, output):
    """The same parts of a new output: lines with the words that they wrap to, and tables, by how they begin."""
    said, parts = iter(_parts(output)), []
    for part in _parts(shown):
        fresh = next((other for other in said if other and _key(other) == _key(part)), None) if part else part
        if fresh is None:
            raise SystemExit(f"The output no longer has a part that begins like this: {part.splitlines()[0]}")
        parts.append(fresh)
    return "\n".join(parts) + "\n"


def _parts(printed):
    """Lines with what they wrap to, and whole tables; blank lines are parts of their own."""
    parts, table = [], False
    lines = printed.rstrip("\n").splitlines()
    for before, line in pairwise(["", *lines]):
        table = bool(line) and (table or len(re.split(r"\S {2,}", line)) > 4)
        deeper = bool(parts) and _indent(line) == _indent(parts[-1]) + 2
        wrapped = line and before and deeper and len(before) + len(line.split()[0]) >= WIDTH
        if parts and ((table and before and _is_row(parts[-1])) or wrapped):
            parts[-1] += f"\n{line}"
        else:
            parts.append(line)
    return parts


def _indent(part):
    return len(part) - len(part.lstrip(" "))


def _is_row(part):
    return len(re.split(r"\S {2,}", part.splitlines()[0])) > 4


def _key(part):
    return re.split(r"[\d:,(]|  ", part.strip())[0].strip()


def main():
    for page in PAGES:
        written = text(page)
        for example in reversed(examples(page)):
            command = [sys.executable, "-m", "flopsight", *example.words[1:]]
            with TemporaryDirectory() as folder:
                done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
            end = example.start + len(example.shown)
            written = written[: example.start] + refreshed(example.shown, done.stdout) + written[end:]
        (ROOT / page).write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
