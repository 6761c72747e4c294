"""What a file says without being run: names and arguments, and nothing where only running it can tell."""

import pytest

from flopsight.targets.source_names import SourceFile

TEXT = """
import os.path as places
from somewhere import thing as other
if True:
    inner = 1
try:
    import numpy
except ImportError:
    numpy = None

import torch
from typing import Optional
from enum import Enum

class Config: ...

class Mode(Enum):
    FAST = 1

class Net(nn.Module):
    def __init__(self, width: int, depth=2, *, bias: bool, **more): ...

class Child(Net):
    def forward(self, x): ...

class Bare(nn.Module): ...

class FromElsewhere(Imported): ...

class Plain(nn.Module):
    def __init__(self, config: Config, mode: Mode, dtype: Optional[torch.dtype] = None): ...

class Configured(nn.Module):
    def __init__(self, data: Data): ...

@dataclass
class Data:
    x: int

def make(a, b=1): hidden = 3
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "file.py"
    path.write_text(TEXT)
    return SourceFile(path)


def test_a_file_binds_what_stands_at_its_top(source):
    assert source.names == {
        "places", "other", "inner", "numpy", "torch", "Optional", "Enum", "Config", "Mode", "Net", "Child", "Bare", "FromElsewhere",
        "Plain", "Configured", "Data", "make",
    }  # fmt: skip


@pytest.mark.parametrize("line", ["from x import *", "globals()['y'] = 1", "def __getattr__(name): ..."])
def test_a_file_that_binds_names_while_it_runs_says_nothing(tmp_path, line):
    (tmp_path / "f.py").write_text(f"a = 1\n{line}\n")

    assert SourceFile(tmp_path / "f.py").names is None


def test_arguments_are_those_of_the_function_or_of_init(source):
    assert str(source.signature("Net")) == "(width: int, depth=2, *, bias: bool, **more)"
    assert str(source.signature("Child")) == "(width: int, depth=2, *, bias: bool, **more)"
    assert str(source.signature("Bare")) == "()"
    assert str(source.signature("Plain")) == "(config, mode, dtype=None)"
    assert str(source.signature("make")) == "(a, b=1)"


@pytest.mark.parametrize("name", ["FromElsewhere", "Configured", "Data", "other", "absent"])
def test_arguments_that_only_running_the_file_can_tell_are_not_guessed(source, name):
    assert source.signature(name) is None


FORWARDS = """
class Net(nn.Module):
    def forward(self, x, /, mask=None, *rest, scale=1 / 2, must, **more): ...

class Child(Net):
    def __init__(self): ...

class Elsewhere(Imported): ...

class Bound(nn.Module):
    def __init__(self):
        self.forward = self.run

    def forward(self, x): ...

class Wrapped(nn.Module):
    @torch.no_grad()
    def forward(self, x): ...

class Caller(nn.Module):
    def __call__(self, *args): ...

    def forward(self, x): ...

def make(): ...
"""


@pytest.fixture
def forwards(tmp_path):
    (tmp_path / "forwards.py").write_text(FORWARDS)
    return SourceFile(tmp_path / "forwards.py")


@pytest.mark.parametrize("name", ["Net", "Child"])
def test_a_forward_is_read_as_the_file_writes_it(forwards, name):
    assert str(forwards.forward(name)) == "(x, /, mask=None, *rest, scale=1 / 2, must, **more)"


@pytest.mark.parametrize("name", ["Elsewhere", "Bound", "Wrapped", "Caller", "make", "absent"])
def test_a_forward_that_only_running_the_file_can_tell_is_not_guessed(forwards, name):
    assert forwards.forward(name) is None
