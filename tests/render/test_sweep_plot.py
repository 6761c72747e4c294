"""Plots of a sweep: a line for each combination, round marks, what does not fit is hollow."""

from xml.etree import ElementTree as ET

import pytest

from flopsight.errors import InputError
from flopsight.render.sweep_plot import _marks, axis_text, svg_plot

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    {"batch": batch, "seq": seq, "peak_bytes": batch * seq * 10**6, "fits": batch * seq < 8000}
    for batch in (1, 8)
    for seq in (1000, 2000, 4000)
]


def parts(kind, text):
    return list(ET.fromstring(text).iter(f"{SVG}{kind}"))


def test_what_does_not_fit_is_hollow_and_the_memory_is_a_line():
    drawn = svg_plot(ROWS, ["batch", "seq"], "peak_bytes", 8 * 10**9)

    dots = parts("circle", drawn)
    assert [dot.get("fill") == "white" for dot in dots] == [False] * 3 + [True] * 3  # 8 x 1000 is as much as there is
    words = [text.text for text in parts("text", drawn)]
    assert "memory 8.00 GB" in words
    assert "hollow: does not fit the memory" in words
    names = {text.text: float(text.get("y")) for text in parts("text", drawn) if "=" in text.text}
    assert sorted(names, key=names.get) == ["batch=8", "batch=1"], "named in the order in which they lie"
    assert len(parts("polyline", drawn)) == 2
    heights = {float(line.get("y1")) for line in parts("line", drawn) if line.get("stroke") == "#cf222e"}
    assert heights == {float(dots[3].get("cy"))}


def test_a_figure_that_no_point_has_is_one_sentence():
    with pytest.raises(InputError, match="No point of this sweep has FLOPs to plot"):
        svg_plot(ROWS, ["batch", "seq"])


@pytest.mark.parametrize(
    ("values", "marks"),
    [((1, 1000), [1, 10, 100, 1000]), ((3, 60), [5, 10, 20, 50]), ((20, 45), [20, 30, 40]), ((7, 7), [7])],
)
def test_a_scale_has_at_least_three_round_marks_if_it_can(values, marks):
    assert _marks(values) == pytest.approx(marks)


def test_numbers_of_an_axis_have_commas_and_names_stay():
    assert [axis_text(value) for value in (2048, 0.5, "bf16")] == ["2,048", "0.5", "bf16"]
