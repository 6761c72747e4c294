"""The public names: each resolves, and a function stays a function whatever was imported before it."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

import flopsight

FIRST = ["flopsight.files.store", "flopsight.engine.measure", "flopsight.cli.profile", "flopsight.profiling"]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("name", [name for name in flopsight.__all__ if name != "__version__"])
def test_every_public_name_resolves_to_what_its_home_calls_so(name):
    home = importlib.import_module(f"flopsight.{flopsight._HOMES[name]}")

    assert getattr(flopsight, name) is getattr(home, name)


def test_no_submodule_bears_a_public_name():
    root = Path(flopsight.__file__).parent
    submodules = {path.stem for path in root.glob("*.py")} | {path.parent.name for path in root.glob("*/__init__.py")}

    assert not submodules & set(flopsight.__all__)


def test_profile_is_the_function_in_every_import_order():
    orders = [*permutations(FIRST, 2)]
    code = "\n".join(
        [
            "import importlib, sys",
            f"for order in {orders!r}:",
            "    for name in [name for name in sys.modules if name.partition('.')[0] == 'flopsight']:",
            "        del sys.modules[name]",
            "    for name in order:",
            "        importlib.import_module(name)",
            "    import flopsight",
            "    assert callable(flopsight.profile) and flopsight.profile.__name__ == 'profile', order",
            "    assert callable(flopsight.load) and callable(flopsight.count), order",
            "    from flopsight import profile",
            "    assert profile is flopsight.profile, order",
        ]
    )

    done = run(code)

    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'profil'"):
        flopsight.profil  # noqa: B018


def test_importing_the_package_and_what_needs_no_torch_does_not_import_it():
    done = run(
        "import sys, flopsight; flopsight.load, flopsight.Cost, flopsight.formula; sys.exit('torch' in sys.modules)"
    )

    assert done.returncode == 0, done.stderr


def test_the_check_for_torch_can_fail():
    assert run("import sys, flopsight; flopsight.profile; sys.exit('torch' in sys.modules)").returncode == 1


def test_what_type_checkers_see_is_what_the_table_loads():
    page = ast.parse(Path(flopsight.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in page.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]

    seen = {alias.asname: statement.module for statement in block.body for alias in statement.names}

    assert seen == flopsight._HOMES
    assert all(alias.name == alias.asname for statement in block.body for alias in statement.names)


FUNCTIONS = [name for name in flopsight._HOMES if inspect.isfunction(getattr(flopsight, name))]
PROFILERS = ["FlopsProfiler", "TIDSProfiler", "AProfiler"]
METHODS = [
    (name, method)
    for name in flopsight._HOMES
    if inspect.isclass(getattr(flopsight, name))
    for method, code in vars(getattr(flopsight, name)).items()
    if inspect.isfunction(code) and not method.startswith("_")
]


def unexplained(function, text):
    """The arguments that a text does not name."""
    return [
        argument
        for argument, how in inspect.signature(function).parameters.items()
        if argument != "self"
        and how.kind not in (how.VAR_KEYWORD, how.VAR_POSITIONAL)
        and not re.search(rf"`{argument}\b|\b{argument}=", text)
    ]


@pytest.mark.parametrize("name", [*FUNCTIONS, *PROFILERS])
def test_help_explains_every_argument(name):
    function = getattr(flopsight, name)

    assert not unexplained(function, function.__doc__)


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_help_explains_every_argument_of_a_method(name, method):
    function = getattr(getattr(flopsight, name), method)

    assert not unexplained(function, function.__doc__)
