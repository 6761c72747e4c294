"""Functions and classes stay small enough to be read at a glance."""

import ast
from pathlib import Path

import flopsight

ROOT = Path(flopsight.__file__).parent
MOST_LINES = 40
"""Of a function, without its signature and docstring."""
MOST_ATTRIBUTES = 14
WIDE = {
    "results/node.py": {"Node": "what is known of a module, one field a figure: files and users name them"},
    "results/profile.py": {"Profile": "what a user holds, one field a figure: files and users name them"},
    "hardware/peaks.py": {"Device": "a row of the data sheet, as peaks.toml has it"},
    "results/run.py": {"Interval": "the figures of some steps, one field a figure: files and users name them"},
    "results/plan.py": {"PlanOption": "the figures of one way to run a job: files and users name them"},
}
"""Classes with more attributes, and why: values that are lists of figures by nature."""


def lines(function):
    """The lines of a function's body, from its first statement after the docstring to its end."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def attributes(kind):
    """The names that a class declares as fields, or sets on `self`."""
    fields = {one.target.id for one in kind.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    stored = {
        node.attr
        for node in ast.walk(kind)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted_self(node)
    }
    return fields | stored


def dotted_self(node):
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def long_functions(tree):
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: lines(node) for node in functions if lines(node) > MOST_LINES}


def wide_classes(tree):
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: len(attributes(node)) for node in classes if len(attributes(node)) > MOST_ATTRIBUTES}


def trees():
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}


def test_no_function_is_longer_than_forty_lines():
    assert {name: found for name, tree in trees().items() if (found := long_functions(tree))} == {}


def test_no_class_has_more_than_fourteen_attributes():
    found = {name: set(wide) for name, tree in trees().items() if (wide := wide_classes(tree))}

    assert found == {name: set(kinds) for name, kinds in WIDE.items()}


def test_a_long_function_and_a_wide_class_are_noticed():
    statements = "\n".join(f"    x = {number}" for number in range(41))
    fields = "\n".join(f"        self.a{number} = self.b{number} = 0" for number in range(7))

    assert long_functions(ast.parse(f'def f(a,\n  b):\n    """Docstring."""\n{statements}')) == {"f": 41}
    assert long_functions(ast.parse(f'def f(a,\n  b):\n    """Docstring."""\n{statements[:-11]}')) == {}
    assert wide_classes(ast.parse(f"class A:\n    c: int\n    def __init__(self):\n{fields}")) == {"A": 15}
    assert wide_classes(ast.parse(f"class A:\n    def __init__(self):\n{fields}")) == {}
