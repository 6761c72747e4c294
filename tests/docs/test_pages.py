"""What every page promises: its Python runs and gives the values in its comments, its links lead somewhere."""

import re
from pathlib import Path

import pytest
from docs import pages
from interpreters import fork

from flopsight.results.caveats import all_kinds

MORE = {
    "docs/deepspeed.md": "tests/lanes/deepspeed runs it, with DeepSpeed",
    "docs/serving.md": "tests/lanes/targets runs it, with transformers",
}
"""Pages whose Python needs a package that the plain tests do not have."""
PYTHON = [page for page in pages.PAGES if pages.python(page) and page not in MORE]
FEWEST = {"docs/conventions.md": 25, "docs/training.md": 15, "README.md": 5}
"""Values that a page states at least."""


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs_and_gives_what_the_comments_say(page, tmp_path):
    done = fork([pages.__file__, page], tmp_path)

    assert done.code == 0, done.err
    assert int(done.out.split()[-1]) >= FEWEST.get(page, 0)


@pytest.mark.parametrize(
    ("value", "said", "held"),
    [
        (64, "4*2*8 = 64", True),
        (0.256, "(2*64 + 2*64) / 1e-6 / 1e9 = 0.256", True),
        (("a", 1), "('a', 1)", True),
        (None, "None", True),
        (64, "the tree", False),
        ("x", "64 is not it", False),
    ],
)
def test_a_comment_that_states_a_value_is_held_and_prose_is_not(value, said, held):
    assert pages.hold(value, said, "here") is held


@pytest.mark.parametrize(("value", "said"), [(64, "65"), (64, "4*2*8 = 65"), (("a", 1), "('a', 2)"), (1, "None")])
def test_a_wrong_value_is_noticed(value, said):
    with pytest.raises(AssertionError):
        pages.hold(value, said, "here")


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_link_to_a_file_or_a_heading_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", pages.text(page)):
        if "://" in link:
            continue
        file, _, heading = link.partition("#")
        target = (pages.ROOT / page).parent / file if file else pages.ROOT / page
        assert target.exists(), link
        if heading:
            assert heading in headings(target.read_text(encoding="utf-8")), link


def headings(text):
    """The anchors of a page, as they are made from its headings."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_index_names_every_page_once():
    index = re.findall(r"\]\(([\w.-]+\.md)\)", pages.text("docs/README.md"))
    there = [Path(page).name for page in pages.PAGES if page.startswith("docs/") and page != "docs/README.md"]

    assert sorted(index) == sorted(there)


def test_every_doubt_has_a_line_of_advice():
    rows = [row.cells for table in pages.tables("docs/latency.md") for row in table if "do" in row.header]
    told = [next(iter(cells.values())).strip("`") for cells in rows]

    assert sorted(told) == sorted(all_kinds())


def test_the_budget_on_the_page_about_ci_breaks_with_the_lines_that_the_page_shows(tmp_path):
    (test,) = re.findall(r"```py\n(.*?)```", pages.text("docs/ci.md"), re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", pages.text("docs/ci.md"), re.DOTALL)
    (tmp_path / "test_backbone.py").write_text(f"from flopsight.zoo.resnet import resnet50\n{test}")

    done = fork(["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", tmp_path, tmp_path], tmp_path)

    assert done.code == 1, done.out + done.err
    assert [line.split() for line in shown.splitlines()] == [
        line.split() for line in done.out.splitlines() if line.startswith("E   ")
    ]


@pytest.mark.parametrize("path", sorted((pages.ROOT / "docs/images").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_loads_nothing_from_elsewhere(path):
    assert re.findall(r"(?:href=|url\()[\"']?(?!#)[^\"')]+", path.read_text(encoding="utf-8")) == []
