"""What the pages promise on the command line: every line is one that we have, and every flag is told."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from flopsight.cli.app import app

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(["README.md", "examples/lenet.py", *(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/*.md"))])
LINE = re.compile(
    r"^(?:\$ )?(flopsight (?:profile|sweep|plan|targets|run|show|diff|check|merge|ops|device|doctor|demo)\b.*?)(?:  +.*|\s*#.*)?$",
    re.MULTILINE,
)


def documented():
    return [(page, found[1]) for page in PAGES for found in LINE.finditer((ROOT / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "line"), documented())
def test_a_documented_command_line_is_one_that_we_have(page, line):
    _, name, *words = shlex.split(line)
    command = typer.main.get_command(app).commands[name]

    context = command.make_context(name, words, resilient_parsing="[" in line or "TARGET" in line or "PROFILE" in line)

    assert context.params is not None


def test_the_pages_have_command_lines():
    assert len(documented()) > 20


def test_every_flag_is_documented():
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert max(parameter.opts, key=len) in page, (name, parameter.opts)
