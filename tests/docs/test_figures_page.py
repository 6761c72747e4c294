"""The page of all figures and the book say the same."""

from docs.figures_page import PAGE, page

from flopsight.analysis.figures import BOOK


def test_the_page_is_what_the_book_says():
    assert PAGE.read_text(encoding="utf-8") == page(), "make figures writes it anew"


def test_every_figure_has_a_row_of_its_own():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]

    assert [row.split("`")[1] for row in rows] == list(BOOK)
    assert {row.replace(r"\|", "").count("|") for row in rows} == {9}, "a cell holds no bar"
