"""The page in the documentation, and its data files, are what these models give."""

from tables import files


def test_the_files_are_what_make_accuracy_writes():
    made = files()

    assert {path: path.read_text(encoding="utf-8") for path in made} == made, "run `make accuracy`"
