"""Targets in files: what they import leaves no trace in the process, and no other file finds it."""

import sys
from importlib import import_module

import pytest

import flopsight
from flopsight.targets.users import TargetRaised

NET = """
import layers
import shapes.square
from torch import nn

def model():
    return nn.Linear(layers.WIDTH, layers.WIDTH, bias=False)

def broken():
    raise ValueError("no such width")
"""


def project(folder, width):
    """A file with a neighbour and a package beside it, as a user's project has them."""
    (folder / "shapes").mkdir(parents=True)
    (folder / "net.py").write_text(NET)
    (folder / "layers.py").write_text(f"WIDTH = {width}\n")
    (folder / "shapes" / "__init__.py").touch()
    (folder / "shapes" / "square.py").touch()
    return f"{folder / 'net.py'}:model"


OPTIONS = {"gpus": 1, "on": "h100-sxm", "micro_batch": 1, "precision": "fp32", "checkpoint": "none"}
USES = {
    "count": lambda target, width: flopsight.count(target, input_shape=(1, width)).params,
    "meta": lambda target, width: flopsight.count(target, input_shape=(1, width), on="meta").params,
    "plan": lambda target, width: (
        flopsight.plan(target, input_shape=(1, width), **OPTIONS).best.memory["parameters"] / 4
    ),
    "sweep": lambda target, width: (
        flopsight.sweep(target, {"batch": [1]}, inputs=f"{{batch}}x{width}").points[0].profile.params
    ),
}


@pytest.mark.parametrize("use", USES)
def test_projects_with_equal_names_find_their_own_neighbours(tmp_path, use):
    small, large = project(tmp_path / "a", 8), project(tmp_path / "b", 16)
    path, modules = list(sys.path), set(sys.modules)

    assert USES[use](small, 8) == 8 * 8
    assert USES[use](large, 16) == 16 * 16
    assert sys.path == path
    assert {"net", "layers", "shapes", "shapes.square"}.isdisjoint(set(sys.modules) - modules)


def test_what_the_user_has_imported_stays(tmp_path, monkeypatch):
    target = project(tmp_path, 8)
    monkeypatch.syspath_prepend(tmp_path)
    layers, shapes = import_module("layers"), import_module("shapes")

    flopsight.count(target, input_shape=(1, 8))

    assert sys.modules["layers"] is layers
    assert sys.modules["shapes"] is shapes
    assert sys.modules["shapes.square"] is shapes.square  # a part of a package that is the user's


def test_a_target_that_raises_is_forgotten_too(tmp_path):
    path, modules = list(sys.path), set(sys.modules)

    with pytest.raises(TargetRaised, match="no such width"):
        flopsight.count(project(tmp_path, 8).replace("model", "broken"), input_shape=(1, 8))

    assert sys.path == path
    assert {"net", "layers"}.isdisjoint(set(sys.modules) - modules)
