"""What the README and docs/cli.md promise: every command line is one that we have, every block of Python runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from flopsight.cli.app import app

ROOT = Path(__file__).parent.parent.parent
PAGES = ["README.md", "docs/cli.md", "examples/lenet.py"]
LINE = re.compile(
    r"^(?:\$ )?(flopsight (?:profile|show|diff|check|ops|device|demo)\b.*?)(?:  +.*|\s*#.*)?$", re.MULTILINE
)


def documented():
    return [(page, found[1]) for page in PAGES for found in LINE.finditer((ROOT / page).read_text())]


@pytest.mark.parametrize(("page", "line"), documented())
def test_a_documented_command_line_is_one_that_we_have(page, line):
    _, name, *words = shlex.split(line)
    command = typer.main.get_command(app).commands[name]

    context = command.make_context(name, words, resilient_parsing="[" in line or "TARGET" in line or "PROFILE" in line)

    assert context.params is not None


def test_the_pages_have_command_lines():
    assert len(documented()) > 20


def test_every_flag_is_documented():
    page = (ROOT / "docs/cli.md").read_text()
    for name, command in typer.main.get_command(app).commands.items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert max(parameter.opts, key=len) in page, (name, parameter.opts)


def test_every_link_to_a_file_leads_somewhere():
    for page in ["README.md", "docs/cli.md"]:
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
            if "://" not in link:
                assert ((ROOT / page).parent / link).exists(), (page, link)


def test_the_python_of_the_readme_runs_in_the_order_it_is_printed(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    code = "\n".join([*blocks, "assert r.profile.macs == 8 * 16 * 4"])

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert len(blocks) == 3
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "resnet.json").exists()
