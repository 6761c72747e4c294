"""The page's script has Python's own units, colours and escapes."""

from project import shared_constants


def test_the_file_is_what_python_has():
    stale = "run `make report`: units, colours or escapes changed in Python"
    assert shared_constants.PATH.read_text(encoding="utf-8") == shared_constants.text(), stale
