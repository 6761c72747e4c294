"""What a file says without being run: names and arguments, and nothing where only running it can tell."""

import pytest

from flopsight.targets.source_names import Arguments, SourceFile

TEXT = """
import os.path as places
from somewhere import thing as other
if True:
    inner = 1
try:
    import numpy
except ImportError:
    numpy = None

class Config: ...

class Net(nn.Module):
    def __init__(self, width: int, depth=2, *, bias: bool, **more): ...

class Child(Net):
    def forward(self, x): ...

class Bare(nn.Module): ...

class FromElsewhere(Imported): ...

class Configured(nn.Module):
    def __init__(self, config: Config): ...

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
        "places", "other", "inner", "numpy", "Config", "Net", "Child", "Bare", "FromElsewhere", "Configured", "Data", "make",
    }  # fmt: skip


@pytest.mark.parametrize("line", ["from x import *", "globals()['y'] = 1", "def __getattr__(name): ..."])
def test_a_file_that_binds_names_while_it_runs_says_nothing(tmp_path, line):
    (tmp_path / "f.py").write_text(f"a = 1\n{line}\n")

    assert SourceFile(tmp_path / "f.py").names is None


def test_arguments_are_those_of_the_function_or_of_init(source):
    net = Arguments(("width", "depth", "bias"), ("width", "bias"), takes_any=True, hints={"width": int, "bias": bool})

    assert source.arguments("Net") == net
    assert source.arguments("Child") == net
    assert source.arguments("Bare") == Arguments((), (), takes_any=False)
    assert source.arguments("make") == Arguments(("a", "b"), ("a",), takes_any=False)


@pytest.mark.parametrize("name", ["FromElsewhere", "Configured", "Data", "other", "absent"])
def test_arguments_that_only_running_the_file_can_tell_are_not_guessed(source, name):
    assert source.arguments(name) is None
