"""The page's script has Python's own units, colours and escapes."""

from itertools import pairwise

import pytest
from project import shared_constants

from flopsight.render.palette import MEMORY_HUES
from flopsight.results.memory_curve import LASTING_FIRST


def test_the_file_is_what_python_has():
    stale = "run `make report`: units, colours or escapes changed in Python"
    assert shared_constants.PATH.read_text(encoding="utf-8") == shared_constants.text(), stale


def test_every_kind_of_memory_has_a_colour_of_its_own():
    assert set(MEMORY_HUES) == set(LASTING_FIRST)
    assert len(set(MEMORY_HUES.values())) == len(MEMORY_HUES)


@pytest.mark.parametrize(
    "kinds",
    [
        ("parameters", "activations", "temporaries"),
        ("parameters", "kv cache", "activations", "temporaries"),
        ("parameters", "optimizer", "gradients", "activations", "temporaries"),
        ("parameters", "optimizer", "gradients", "gathered", "activations", "temporaries"),
        ("parameters", "optimizer", "gradients", "activations", "recomputed", "temporaries"),
    ],
)
def test_kinds_of_memory_that_lie_on_each_other_differ_in_grey_print(kinds):
    assert [kind for kind in LASTING_FIRST if kind in kinds] == list(kinds)
    greys = [grey(MEMORY_HUES[kind]) for kind in kinds]

    assert min(abs(below - above) for below, above in pairwise(greys)) >= 40, dict(zip(kinds, greys, strict=True))


def grey(hue):
    """From 0 to 255, as a printer without colours weighs red, green and blue (ITU-R BT.601)."""
    red, green, blue = (int(hue[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue
