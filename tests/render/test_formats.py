"""One door to every format: options, errors, and files for other programs."""

import csv
import io
import re
import sys
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from profiles import lenet, module, oddities, rooted, stack

from flopsight.cli.views import prepare_view
from flopsight.errors import InputError
from flopsight.files import store
from flopsight.render import render
from flopsight.render.formats import FORMATS, PRINTED, find_by_suffix, find_printed
from flopsight.results.costs import Cost
from flopsight.results.profile import Profile

TIMELESS = [name for name in PRINTED if not FORMATS[name].needs_timeline]
"""Formats that draw any profile; a trace needs a timeline."""


@pytest.mark.parametrize("format", [None, 5])
def test_a_format_that_is_not_a_name_is_refused_in_a_sentence(format):
    with pytest.raises(InputError, match=f"There is no format {format}. Formats: tree, "):
        render(lenet(), format)


@pytest.mark.parametrize("format", TIMELESS)
@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_every_format_draws_every_profile(format, make):
    assert render(make(), format)


@pytest.mark.parametrize("format", TIMELESS)
def test_a_model_without_parameters_work_or_time_divides_by_nothing(format):
    empty = Profile(rooted(module("", "Empty", module("inner", "Identity", calls=0))))

    assert render(empty, format)


def test_an_unknown_format_names_the_nearest_and_all():
    with pytest.raises(
        InputError, match=r"no format 'tabel'. Did you mean 'table'\? Formats: tree, table, bound, memory, deepspeed, "
    ):
        lenet().render("tabel")


def test_an_option_that_a_format_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(
        InputError, match=r"The format tree has no option 'dept'. Did you mean 'depth'\? It takes depth, "
    ):
        render(lenet(), "tree", dept=2)
    with pytest.raises(InputError, match="The format json has no option 'depth'. It takes none"):
        render(lenet(), "json", depth=2)


def test_options_that_are_none_are_as_if_not_given():
    profile = lenet()

    assert render(profile, "json", depth=None, width=None) == render(profile, "json")


def test_the_older_profilers_word_for_depth_works_everywhere_and_minus_one_is_the_deepest():
    profile = stack(2, width=8)

    assert render(profile, "tree", module_depth=1) == render(profile, "tree", depth=1)
    assert render(profile, "deepspeed", module_depth=-1) == render(profile, "deepspeed")
    assert render(profile, "deepspeed", module_depth=0) != render(profile, "deepspeed")


def test_json_reads_back_as_the_same_profile():
    profile = stack(2, width=8)

    assert store.loads(render(profile, "json")) == profile


def test_csv_reads_back_row_by_row():
    profile = oddities()
    rows = list(csv.DictReader(io.StringIO(render(profile, "csv"))))

    assert [row["path"] for row in rows] == list(profile.nodes)
    assert rows[0]["flops"] == str(profile.flops)
    assert rows[0]["latency"] == ""  # not measured is not zero


def test_a_frame_without_pandas_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(InputError, match="needs pandas, which is not installed: pip install pandas"):
        lenet().to_frame()


def test_a_frame_is_asked_of_pandas_with_one_record_a_module(monkeypatch):
    class Frame:
        def __init__(self, records):
            self.records = records

        def set_index(self, column):
            self.index = column
            return self

    class Pandas:
        DataFrame = Frame

    monkeypatch.setitem(sys.modules, "pandas", Pandas)

    frame = lenet().to_frame()

    assert frame.index == "path"
    assert len(frame.records) == len(lenet().nodes)
    assert frame.records[0]["macs"] == 426_516_480


def test_markdown_escapes_what_a_module_is_called():
    root = rooted(module("", "A|B", module("<x>_*", "K", flops=3)))

    text = render(Profile(root), "markdown")

    assert r"A\|B" in text
    assert r"\<x\>\_\*: K" in text


def test_markdown_tables_have_as_many_cells_as_columns():
    for make in (lenet, stack, oddities):
        for block in render(make(), "markdown").split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count(" | ") for line in lines}) <= 1


def test_a_page_of_html_needs_nothing_beside_it_and_escapes_every_name(tmp_path):
    evil = "<script>alert('x')</script>"
    root = rooted(module("", evil, module(evil, evil, flops=3, extra=evil)))
    profile = replace(oddities(), root=root)

    path = profile.to_html(tmp_path / "new" / "page.html")
    page = path.read_text(encoding="utf-8")

    assert evil not in page
    assert "&lt;script&gt;" in page
    named_only = ("http-equiv", "http://www.w3.org/2000/svg")  # an attribute and a namespace: nothing is fetched
    assert "http" not in reduce(lambda text, name: text.replace(name, ""), named_only, page)
    assert "<link" not in page


def static_rows(path):
    """The rows of the module tree that readers without script see, the head first."""
    static = re.search("<noscript>(.*?)</noscript>", path.read_text(encoding="utf-8"), re.DOTALL)[1]
    return re.findall("<tr>.*?</tr>", re.search("<table>.*?</table>", static, re.DOTALL)[0], re.DOTALL)


@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_html_opens_and_closes_what_it_must(make, tmp_path):
    page = make().to_html(tmp_path / "page.html").read_text(encoding="utf-8")

    for tag in ("div", "table", "tr", "td", "th"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert page.count("<table>") >= 1


@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_html_rows_have_a_cell_for_every_column(make, tmp_path):
    head, *rows = static_rows(make().to_html(tmp_path / "page.html"))

    assert rows
    assert {row.count("<td") for row in rows} == {len(re.findall("<th[ >]", head))}


def test_html_shows_the_time_of_backward_by_module(tmp_path):
    layers = [
        module(name, "Linear", backward=Cost(2, 4), latency=1.0, backward_latency=seconds)
        for name, seconds in (("a", 2.0), ("b", 3.0))
    ]
    root = rooted(module("", "Net", *layers, latency=2.0, backward_latency=5.0))
    head, *rows = static_rows(replace(stack(), root=root).to_html(tmp_path / "page.html"))

    place = re.findall(r"<th[^>]*>(.*?)</th>", head).index("bwd latency")
    assert [re.findall(r"<td[^>]*>(.*?)</td>", row)[place] for row in rows] == ["5.00 s", "2.00 s", "3.00 s"]


def test_a_format_that_is_a_file_says_so_when_it_is_to_be_printed():
    with pytest.raises(
        InputError, match=r"The format html is a file, not text to print: .* -o page.html, or profile.to_html"
    ):
        render(lenet(), "html")


def test_full_draws_every_block_of_a_stack_on_the_page(tmp_path):
    """Twelve blocks of ten modules each; folded they are the ten modules of one."""
    profile = stack(12, width=8)

    folded = static_rows(profile.to_html(tmp_path / "folded.html"))
    every = static_rows(profile.to_html(tmp_path / "every.html", full=True))

    assert len(every) - len(folded) == 11 * 10
    assert len(static_rows(profile.to_html(tmp_path / "top.html", depth=0))) == 1 + 1, "a head and the model"


@pytest.mark.parametrize(
    ("name", "format"), [("p.json", "json"), ("p.trace.json", "trace"), ("p.md", "markdown"), ("p.txt", None)]
)
def test_the_longest_suffix_says_the_format_of_a_file(name, format):
    found = find_by_suffix(Path(name))

    assert (found and found.name) == format


def test_every_format_names_a_function_that_takes_what_top_sets():
    for known in FORMATS.values():
        assert callable(known.draw)
        assert known.top is None or known.top in known.options


@pytest.mark.parametrize("name", ["icicle.svg", "roofline.png", "a.curve.pdf"])
def test_a_file_is_called_after_its_picture(tmp_path, name):
    found = find_by_suffix(tmp_path / name)

    assert found.name in name


def test_memory_over_the_step_has_the_name_that_notebooks_give_it(tmp_path):
    assert find_by_suffix(tmp_path / "a.memory.pdf") is find_by_suffix(tmp_path / "a.curve.pdf")


def test_a_file_of_an_unknown_suffix_says_which_files_and_pictures_there_are(tmp_path):
    with pytest.raises(
        InputError,
        match=r"can be \.json, .*\.html, or a picture: icicle, roofline, memory or timeline with \.svg, \.png or \.pdf",
    ):
        find_by_suffix(tmp_path / "icicle.gif")


def test_a_picture_of_another_name_says_which_there_are(tmp_path):
    with pytest.raises(InputError, match=r"icicle\.svg, roofline\.svg, memory\.svg or timeline\.svg"):
        find_by_suffix(tmp_path / "a.svg")


def test_a_picture_is_no_text_to_print():
    with pytest.raises(InputError, match=r"flopsight show FILE -o icicle\.svg"):
        find_printed("icicle")


def test_a_picture_is_refused_before_the_work_if_nothing_can_draw_it(monkeypatch, tmp_path):
    monkeypatch.setattr("flopsight.render.pictures.find_spec", lambda _name: None)

    with pytest.raises(InputError, match="matplotlib"):
        prepare_view(outputs=[tmp_path / "x.icicle.svg"])
    prepare_view(outputs=[tmp_path / "x.html"])
