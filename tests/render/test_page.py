"""Grids give way as the page narrows: columns first, then names."""

from flopsight.render.page import Column, Grid, Heading, Lines
from flopsight.render.plain import plain


def grid(**more):
    return Grid(
        (
            Column("module", ("encoder.layer.0", "head"), right=False, **more),
            Column("first", ("123456", "1"), keep=1),
            Column("kept", ("123456", "1"), keep=90),
            Column("second", ("123456", "1"), keep=50),
        )
    )  # fmt: skip


def titles(fitted):
    return [column.title for column in fitted.columns]


def test_a_wide_page_shows_every_column():
    assert titles(grid().fitted(80)) == ["module", "first", "kept", "second"]


def test_columns_leave_in_the_order_of_their_worth():
    assert titles(grid().fitted(38)) == ["module", "kept", "second"]
    assert titles(grid().fitted(28)) == ["module", "kept"]
    assert titles(grid().fitted(20)) == ["module"]


def test_short_names_are_tried_before_the_last_columns_go():
    fitted = grid(short=("layer.0", "head")).fitted(28)

    assert titles(fitted) == ["module", "kept", "second"]
    assert fitted.columns[0].cells == ("layer.0", "head")


def test_a_page_that_is_too_narrow_says_what_it_leaves_out_and_how_to_see_it():
    text = plain([grid()], 38)

    # 15 for the names, three columns of 6, and a gap of 2 before each
    assert text.endswith("\n\nNo room for first: --width 39 shows\n  every column.\n")
    assert "No room" not in plain([grid()], 39)


def test_a_name_that_does_not_fit_is_cut_at_its_end_or_a_path_at_its_beginning():
    names = Column("module", ("a.very.long.path.to.a.module",), right=False)

    assert Grid((names,)).fitted(20).columns[0].cells == ("a.very.long.path....",)
    assert Grid((names,), clip_left=True).fitted(20).columns[0].cells == ("....path.to.a.module",)


def test_numbers_stand_right_and_names_left():
    text = plain([Grid((Column("module", ("a", "bbb"), right=False), Column("n", ("1", "22"))))], 80)

    assert text == "module   n\n----------\na        1\nbbb     22\n"


def test_an_empty_grid_is_a_header():
    assert plain([Grid((Column("module", (), right=False),))], 80) == "module\n------\n"


def test_empty_parts_leave_no_gap_and_long_lines_are_wrapped():
    text = plain([Heading("title"), Lines(()), Lines(("one two three four",))], 10)

    assert text == "title\n\none two\n  three\n  four\n"
