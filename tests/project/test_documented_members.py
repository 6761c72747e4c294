"""Every public name, and every public member of what a user holds, says what it is."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import flopsight

ALSO = [
    ("results.comm", "CommRow"), ("results.costs", "OpRow"), ("results.costs", "Phases"), ("results.coverage", "Coverage"),
    ("results.coverage", "UnknownOp"), ("results.environment", "Environment"), ("results.run", "Interval"), ("results.run", "Run"),
    ("results.run", "SlowStep"), ("results.timings", "Stat"), ("results.timings", "Timing"), ("results.world", "Whole"), ("results.world", "World"),
]  # fmt: skip
"""Values that public values hold."""
NAMES = flopsight._HOMES
CLASSES = [(home, name) for name, home in NAMES.items() if inspect.isclass(getattr(flopsight, name))]


def definition(home, name):
    path = Path(import_module(f"flopsight.{home}").__file__)
    (found,) = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if getattr(node, "name", "") == name]
    return found


def undocumented(body):
    """Public members of a class without a sentence: fields, properties and methods."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node):
            yield node.name
        if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            said = (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            )
            if not said:
                yield node.target.id


@pytest.mark.parametrize(("home", "name"), [*CLASSES, *ALSO], ids=lambda value: value)
def test_every_public_member_says_what_it_is(home, name):
    found = definition(home, name)

    assert ast.get_docstring(found)
    assert not [*undocumented(found.body)]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_is(name):
    assert inspect.getdoc(getattr(flopsight, name))


@pytest.mark.parametrize(
    "code", ["x: int", "x: int = 3\ny = 4", "def f(self): pass", "@property\ndef f(self): return 1"]
)
def test_a_member_without_a_sentence_is_found(code):
    assert len([*undocumented(ast.parse(code).body)]) == 1


def test_a_member_with_a_sentence_and_a_private_one_are_fine():
    assert not [*undocumented(ast.parse('x: int\n"""Samples."""\n_y: int\ndef f(self):\n    """Count."""').body)]
