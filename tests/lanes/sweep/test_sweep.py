"""Many architectures, trained for a step and run without gradients: the twin agrees in every figure of every module."""

from pathlib import Path

import pytest
from architectures import ARCHITECTURES
from compared import result
from exceptions import EXCEPTIONS

LIBRARIES = {entry.library for entry in ARCHITECTURES.values()}
BATCHES = (1, 2)
each = pytest.mark.parametrize(("name", "batch"), [(name, batch) for name in ARCHITECTURES for batch in BATCHES])


def test_the_sweep_is_broad_and_all_but_one_of_its_libraries_are_in_no_other_lane():
    others = [lane for lane in Path(__file__).parent.parent.iterdir() if lane.is_dir() and lane.name != "sweep"]
    listed = "".join(path.read_text() for lane in others for path in lane.iterdir() if path.suffix in (".txt", ".sh"))

    assert len(ARCHITECTURES) - len(EXCEPTIONS) >= 200
    assert len(LIBRARIES) >= 8
    shared = {library for library in LIBRARIES if library.replace("_", "-") in listed.replace("_", "-")}
    assert shared == {"diffusers"}, "its image models differ from others in their attention at batch 1"
    assert len(EXCEPTIONS) <= 5


@each
def test_no_op_is_unknown(name, batch):
    assert result(name, batch).unknown == ()


@each
def test_every_figure_of_every_module_is_the_same_on_meta(name, batch):
    found = result(name, batch)

    assert found.differences == ()
    if name in EXCEPTIONS:
        assert found.no_twin
        assert all(EXCEPTIONS[name] in why for why in found.no_twin)
    else:
        assert found.no_twin == ()
