"""The files that strangers meet first: what CONTRIBUTING names is there, and metadata says the same everywhere."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from flopsight.capture.hooks.release import RELEASES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "flopsight"
AUTHOR = "flopsight contributors"
HOME = "https://github.com/flopsight/flopsight"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS = {"flopsight device NAME", "pre-commit install", "pytest --bless"}
KINDS = [kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]]


def quoted(text):
    return re.findall(r"`([^`]+)`", text)


@cache
def code():
    """Every Python and TOML file of the house and of its tests, as one text."""
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.toml"), *(ROOT / "tests").glob("**/*.py"), ROOT / "pyproject.toml"]
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path != Path(__file__))


def is_there(word):
    """Whether a word in backticks is a path, a target of make, or a name in the code."""
    if word in COMMANDS:
        return True
    if word.startswith("make "):
        target = word.split()[1]
        return subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=False).returncode == 0
    if "/" in word or word.endswith((".py", ".toml", ".txt")):
        return any(
            (folder / word).exists() for folder in (ROOT, SOURCE, SOURCE / "formulas", *ROOT.glob("tests/lanes/*"))
        )
    names = re.findall(r"[A-Za-z_]\w+", re.sub(r"\(.*\)|\".*\"", "", word))
    return bool(names) and all(re.search(rf"\b{name}\b", code()) for name in names)


def test_each_kind_of_contribution_has_ten_lines():
    assert list(SECTIONS) == ["A formula", "A device", "A finding", "A view", "An integration"]
    for title, text in SECTIONS.items():
        lines = [line for line in text.strip().splitlines() if line]
        assert [line.split(".")[0] for line in lines] == [str(number) for number in range(1, 11)], title


@pytest.mark.parametrize("word", sorted(set(quoted(GUIDE))))
def test_what_the_guide_names_is_there(word):
    assert is_there(word)


@pytest.mark.parametrize("word", ["src/flopsight/formulas/nowhere.py", "make nonsense", "LOOKZ", "@formul(x)"])
def test_what_is_not_there_is_noticed(word):
    assert not is_there(word)


def test_the_authors_and_the_home_are_the_same_everywhere():
    assert PROJECT["project"]["authors"] == [{"name": AUTHOR}]
    assert all(url.startswith((HOME, "https://flopsight.github.io/")) for url in PROJECT["project"]["urls"].values())
    assert f"- name: {AUTHOR}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"repository-code: {HOME}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"{HOME}/security" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    assert "version" not in PROJECT["project"]
    assert (SOURCE / Path(PROJECT["tool"]["hatch"]["version"]["path"]).name).exists()
    assert "version:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8").replace("cff-version:", "")


def test_the_workflow_tries_the_oldest_and_the_newest_torch():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    tried = re.search(r"^ +torch: \[(.*)\]", workflow, re.MULTILINE)[1].replace('"', "").split(", ")

    assert tried == [RELEASES[0], RELEASES[-1]]


@pytest.mark.parametrize("path", sorted(ROOT.glob("changes/*")), ids=lambda path: path.name)
def test_a_news_fragment_has_a_kind(path):
    assert path.name in ("README.md", ".gitignore") or re.fullmatch(rf"[+\w-]+\.({'|'.join(KINDS)})\.md", path.name)


def test_the_kinds_of_news_are_explained():
    assert [word for word in quoted((ROOT / "changes/README.md").read_text(encoding="utf-8")) if word in KINDS] == KINDS


@pytest.mark.parametrize("path", [ROOT / "pyproject.toml", *SOURCE.rglob("*.toml")], ids=lambda path: path.name)
def test_every_table_is_toml(path):
    assert tomllib.loads(path.read_text(encoding="utf-8"))
