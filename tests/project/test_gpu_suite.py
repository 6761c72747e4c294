"""The script that runs the suite without pip: it says what is missing, and what it makes stands in for an install."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "tests/gpu/run_suite.sh"
PYTHON = """#!/bin/sh
case "$*" in
  *find_spec*) echo "$LACKS" ;;
  *pytest*) echo "path: $PYTHONPATH"; command -v flopsight; cat $(echo "$PYTHONPATH" | sed 's/.*://')/*.dist-info/*; echo "$@" ;;
esac
"""


@pytest.fixture(name="suite")
def _suite(tmp_path):
    """Run the script with a Python that only reports how it was started."""
    (tmp_path / "carried/xdist").mkdir(parents=True)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)

    def run(*words, lacks=""):
        env = os.environ | {"PYTHON": str(tmp_path / "python"), "LACKS": lacks, "WORKERS": "3"}
        return subprocess.run([SCRIPT, *words], cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


def test_a_folder_without_the_packages_is_named_with_the_next_move(suite):
    done = suite("empty")

    assert done.returncode == 2
    assert done.stderr == "empty holds no pytest-xdist: make it as tests/gpu/README.md says, and carry it here\n"


def test_what_the_machine_lacks_is_named(suite, tmp_path):
    done = suite(tmp_path / "carried", lacks="hypothesis rich")

    assert done.returncode == 2
    assert done.stderr.endswith("lacks: hypothesis rich\n")


def test_pytest_runs_on_the_source_with_the_carried_packages_and_the_plugin(suite, tmp_path):
    done = suite(tmp_path / "carried", "tests/units", "-x")

    assert done.returncode == 0, done.stderr
    path, command, *facts, words = done.stdout.splitlines()
    source, carried, installed = path.removeprefix("path: ").split(":")
    assert (source, carried) == (str(ROOT / "src"), str(tmp_path / "carried"))
    assert command == f"{installed}/bin/flopsight"
    assert not Path(installed).exists(), "left behind"
    assert "Name: flopsight" in facts
    assert "flopsight = flopsight.integrations.pytest_plugin" in facts
    assert words == "-m pytest -n 3 --dist loadfile -r fEs tests/units -x"


def test_everything_that_travels_is_pinned():
    lines = (ROOT / "tests/gpu/requirements.txt").read_text(encoding="utf-8").splitlines()

    assert {re.split("[=<>]", line)[0] for line in lines if line[0] != "#"} >= {"pytest-xdist", "execnet", "typer"}
    assert all(re.match(r"[\w-]+==[\d.]+( |$)", line) for line in lines if line[0] != "#")
