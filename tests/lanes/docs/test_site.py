"""The site builds offline without a warning, every link and picture in it resolves, and every public name has its entry."""

import html
import inspect
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import gallery
import pytest
import tutorials

import flopsight

ROOT = Path(__file__).parents[3]
TAGS = {"a": "href", "iframe": "src", "img": "src", "link": "href", "script": "src"}
PAGES = sorted(path.stem for path in ROOT.glob("docs/*.md") if path.name != "README.md")
DOORS = ["What does it cost?", "Does it fit, and how fast at most?", "What do I change first?"]


class Page(HTMLParser):
    """The links, anchors and words of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.html = path.read_text(encoding="utf-8")
        self.feed(self.html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag in TAGS and given.get(TAGS[tag]):
            self.links.append(given[TAGS[tag]])

    def entry(self, name):
        """The text of a public name's entry."""
        beginning = self.html.index(f'id="{name}"')
        return re.sub(r"<[^>]+>", "", self.html[beginning:].partition("<h2 ")[0])


@pytest.fixture(scope="session", name="site")
def _site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    words = ["make", "-o", ".venvs/docs/.ready", "docs", f"SITE={folder}", f"DOCS_PYTHON={sys.executable}"]
    outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}  # of a make that runs this lane: its warnings are not the site's
    env = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    return folder / "site"


@pytest.fixture(scope="session", name="pages")
def _pages(site):
    """The pages of the site; the reports of the gallery have tests of their own."""
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if path.parent.name != "reports"}


def test_every_page_of_the_documentation_is_there(site):
    assert not [name for name in PAGES if not (site / name / "index.html").exists()]


def test_every_page_can_be_reached_from_the_navigation(site):
    config = (ROOT / "docs/site/zensical.toml").read_text(encoding="utf-8")
    named = re.findall(r'= "([\w/-]+)\.md"', config)

    assert sorted(named) == sorted(
        "index" if path.parent == site else str(path.parent.relative_to(site)) for path in site.rglob("index.html")
    )


def test_every_link_and_picture_leads_somewhere(site, pages):
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                wrong.append((str(path.relative_to(site)), link))
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                wrong.append((str(path.relative_to(site)), link))

    assert not wrong


def test_nothing_is_loaded_from_elsewhere(pages):
    loaded = [
        found
        for page in pages.values()
        for found in re.findall(
            r'<(?:script|img|iframe|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]*)"', page.html
        )
    ]

    assert not loaded
    assert not [path for path, page in pages.items() if 'data-md-component="source"' in page.html], (
        "it asks GitHub for stars"
    )


def test_lists_and_tables_are_lists_and_tables(pages):
    """GitHub takes a list without an empty line before it; a page that relies on that would be prose here."""
    wrong = {
        str(path): found[0]
        for path, page in pages.items()
        if (found := re.findall(r"<p>[^<]*\n(?:- |\| |\d\. ).*", page.html))
    }

    assert not wrong


def test_the_first_page_shows_the_report_a_command_and_three_doors(site, pages):
    page = pages[site / "index.html"]

    assert "images/report.png" in page.links
    assert "flopsight profile net.py:Net" in re.sub(r"<[^>]+>", "", page.html)
    assert [door for door in DOORS if door in page.html] == DOORS


def test_the_gallery_leads_to_a_report_of_every_kind(site, pages):
    links = [unquote(link) for link in pages[site / "gallery/index.html"].links]

    for report in gallery.REPORTS:
        shown = [link for link in links if link.endswith(f"reports/{report.file}")]
        assert len(shown) == 2, report.file  # a link, and the report itself in a frame
        assert (site / "reports" / report.file).stat().st_size > 5_000
    assert {path.suffix for path in (site / "reports").iterdir()} == {".html"}


def test_every_tutorial_is_a_page_with_what_its_cells_printed(site, pages):
    for path in tutorials.TUTORIALS.glob("*.ipynb"):
        text = re.sub(r"<[^>]+>", "", pages[site / "tutorials" / path.stem / "index.html"].html)
        cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
        printed = ["".join(output["text"]) for cell in cells for output in cell["outputs"] if "text" in output]
        assert all(html.escape(words.split()[0], quote=False) in text for words in printed if words.split())


def public():
    return [name for name in flopsight.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", public())
def test_every_public_name_has_an_entry_with_its_arguments_and_members(name, pages):
    (page,) = [page for page in pages.values() if f"flopsight.{name}" in page.anchors]
    thing = getattr(flopsight, name)
    text = page.entry(f"flopsight.{name}")

    if name == "FlopsightError":
        return
    arguments = [each for each in inspect.signature(thing).parameters if each not in ("args", "kwargs")]
    assert not [each for each in arguments if not re.search(rf"\b{each}\b", text)]
    if inspect.isclass(thing):
        members = [each for each in vars(thing) if not each.startswith("_") and each != "conditions"]
        members += [each for each in vars(thing).get("__annotations__", {}) if not each.startswith("_")]
        assert not [each for each in members if f"flopsight.{name}.{each}" not in page.anchors]


def test_the_search_knows_what_users_ask_for(site):
    index = json.dumps(json.loads((site / "search.json").read_text(encoding="utf-8")))

    for words in ("roofline", "MFU", "get_model_profile", "activation", "peak_bytes", "DeepSpeed", "torchinfo"):
        assert words in index


def test_examples_in_docstrings_are_code(pages):
    assert not [str(path) for path, page in pages.items() if "<blockquote>\n<blockquote>" in page.html]


def test_the_first_page_has_commands_that_run(tmp_path):
    page = (ROOT / "docs/site/index.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    (command,) = [line for line in block.splitlines() if line.startswith("flopsight ")]
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))\n"
    )

    words = [sys.executable, "-m", *command.split(), "--no-measure"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert flopsight.load(tmp_path / "net.json")["0"].macs == 8 * 8 * 222 * 222 * 27
    assert (tmp_path / "report.html").stat().st_size > 50_000
