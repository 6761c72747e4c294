"""The page's script has Python's own units, colours and escapes."""

from project import shared_constants

from flopsight.render.palette import MEMORY_HUES
from flopsight.results.memory_curve import LASTING_FIRST


def test_the_file_is_what_python_has():
    stale = "run `make report`: units, colours or escapes changed in Python"
    assert shared_constants.PATH.read_text(encoding="utf-8") == shared_constants.text(), stale


def test_every_kind_of_memory_has_a_colour_of_its_own():
    assert set(MEMORY_HUES) == set(LASTING_FIRST)
    assert len(set(MEMORY_HUES.values())) == len(MEMORY_HUES)
