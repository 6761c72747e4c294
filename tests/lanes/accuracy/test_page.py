"""The page in the documentation is the one that these models give."""

from tables import PAGE, page


def test_the_page_is_what_make_accuracy_writes():
    assert PAGE.read_text() == page(), "run `make accuracy`"
