"""Many architectures, trained for a step and run without gradients: the twin agrees in every figure of every module."""

from pathlib import Path

import pytest
from architectures import ARCHITECTURES
from compared import result
from exceptions import EXCEPTIONS

LIBRARIES = {entry.library for entry in ARCHITECTURES.values()}
each = pytest.mark.parametrize("name", ARCHITECTURES)


def test_the_sweep_is_broad_and_its_libraries_are_in_no_other_lane():
    others = [lane for lane in Path(__file__).parent.parent.iterdir() if lane.is_dir() and lane.name != "sweep"]
    listed = "".join(path.read_text() for lane in others for path in lane.iterdir() if path.suffix in (".txt", ".sh"))

    assert len(ARCHITECTURES) >= 150
    assert len(LIBRARIES) >= 8
    assert not [library for library in LIBRARIES if library.replace("_", "-") in listed.replace("_", "-")]
    assert len(EXCEPTIONS) <= 5


@each
def test_no_op_is_unknown(name):
    assert result(name).unknown == ()


@each
def test_every_figure_of_every_module_is_the_same_on_meta(name):
    found = result(name)

    assert found.differences == ()
    if name in EXCEPTIONS:
        assert found.no_twin
        assert all(EXCEPTIONS[name] in why for why in found.no_twin)
    else:
        assert found.no_twin == ()
