"""Every tutorial runs from its first cell to its last, and prints what it is kept with, but for times."""

import nbformat
import pytest
import tutorials

NAMES = ["ci", "llm-on-meta", "many-ranks", "monitor", "plan", "training-script", "vision"]


def test_these_are_the_tutorials():
    assert [path.stem for path in sorted(tutorials.TUTORIALS.glob("*.ipynb"))] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs_and_prints_what_is_kept(name):
    path = tutorials.TUTORIALS / f"{name}.ipynb"

    again = tutorials.executed(path)

    assert tutorials.said(again) == tutorials.said(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_is_kept_with_its_outputs(name):
    cells = nbformat.read(tutorials.TUTORIALS / f"{name}.ipynb", as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]

    assert all(cell.execution_count for cell in code)
    assert sum(bool(cell.outputs) for cell in code) >= len(code) / 2
