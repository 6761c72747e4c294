"""A user's type checker sees our types: it accepts the right calls and refuses the wrong ones."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import flopsight

HERE = Path(__file__).parent
SOURCE = Path(flopsight.__file__).parent.parent
MARK = "# wrong"
STUBS = {
    "torch/__init__.pyi": """
from typing import Any
from . import nn as nn, optim as optim
class Tensor:
    def __getattr__(self, name: str) -> Any: ...
def ones(*size: int) -> Tensor: ...
def __getattr__(name: str) -> Any: ...
""",
    "torch/nn/__init__.pyi": """
from typing import Any
class Module:
    def __call__(self, *args: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
class Linear(Module):
    def __init__(self, n_in: int, n_out: int, bias: bool = ...) -> None: ...
def __getattr__(name: str) -> Any: ...
""",
    "torch/optim/__init__.pyi": "from typing import Any\nclass Optimizer: ...\ndef __getattr__(name: str) -> Any: ...\n",
}
"""As much of torch as a user's file names: reading all of it would take a minute, and it is not what is tested."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A user's folder with the two files and the stubs."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("right.py", "wrong.py"):
        shutil.copy(HERE / name, folder)
    for name, text in STUBS.items():
        path = folder / "stubs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def by_mypy(folder, name):
    """The lines that mypy refuses."""
    words = ["--strict", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={folder / 'cache'}", name]
    path = os.pathsep.join([str(folder / "stubs"), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        cwd=folder,
        env=os.environ | {"MYPYPATH": path},
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return {
        int(line.split(":")[1]) for line in done.stdout.splitlines() if line.startswith(name) and " error: " in line
    }


def by_pyright(folder, name):
    """The lines that pyright refuses."""
    settings = {"include": [name], "extraPaths": [str(SOURCE)], "stubPath": "stubs", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson"], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )  # fmt: skip
    page = json.loads(done.stdout)
    assert page["summary"]["filesAnalyzed"] == 1
    return {found["range"]["start"]["line"] + 1 for found in page["generalDiagnostics"] if found["severity"] == "error"}


needs_pyright = pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright, which brings a Node of its own")
needs_mypy = pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy, whose compiled form does not travel")
CHECKERS = pytest.mark.parametrize(
    "refused", [pytest.param(by_mypy, marks=needs_mypy), pytest.param(by_pyright, marks=needs_pyright)]
)


@CHECKERS
def test_a_type_checker_accepts_what_is_right_and_sees_no_any(project, refused):
    assert refused(project, "right.py") == set()


@CHECKERS
def test_a_type_checker_refuses_every_mistake(project, refused):
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()

    assert refused(project, "wrong.py") == {number for number, line in enumerate(lines, 1) if line.endswith(MARK)}
