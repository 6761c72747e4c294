"""No block of a page escapes the tests: each language has a test that runs or reads it, and plain text holds no code."""

import ast
import json
import re
import tomllib

import pytest
from docs import pages

from flopsight.analysis.budget import parse_budget
from flopsight.config import Settings

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EVERYWHERE = {
    "python": "tests/docs/test_pages.py",
    "bash": "tests/lanes/docs/test_commands.py",
    "json": "tests/docs/test_blocks.py",
    "toml": "tests/docs/test_blocks.py",
}
"""Which test takes every block of a language."""
ONE_PAGE = {
    ("docs/ci.md", "py"): "tests/docs/test_pages.py",
    ("docs/frameworks.md", "py"): "tests/lanes/frameworks/test_page.py",
    ("docs/distributed.md", "py"): "tests/lanes/docs/test_ranks_page.py",
    ("docs/serving.md", "python"): "tests/lanes/targets/test_serving.py",
    ("docs/deepspeed.md", "python"): "tests/lanes/deepspeed/test_page.py",
}
"""Which test runs the blocks that need more than a page has."""
COMMAND = re.compile(r"^(\$ |flopsight |torchrun |git |pip |python3? |make )")
SYNOPSIS = ("docs/cli.md",)
"""Pages that list the commands as plain text; tests/project/test_documented_commands.py reads every line."""


def blocks(*languages):
    found = [(page, language, text) for page in pages.PAGES for language, text in BLOCK.findall(pages.text(page))]
    return [each for each in found if not languages or each[1] in languages]


def test_every_block_has_a_test_that_runs_or_reads_it():
    left = {(page, language) for page, language, _ in blocks() if language != "text" and language not in EVERYWHERE}

    assert left == {key for key in ONE_PAGE if key[1] not in EVERYWHERE}
    for (page, language), test in ONE_PAGE.items():
        code = (pages.ROOT / test).read_text(encoding="utf-8")
        assert page.rpartition("/")[2] in code
        assert f"```{language}" in code or "pages.run" in code or "pages.python" in code


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, _, text in blocks("text") if page not in SYNOPSIS])
def test_plain_text_holds_no_code(page, text):
    assert not [line for line in text.splitlines() if COMMAND.match(line) or is_code(line)]


def is_code(line):
    """Whether a line is a statement of Python that calls something."""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Call) for node in ast.walk(statement)) and re.search(r"\w\(", line) is not None


def test_code_in_plain_text_is_noticed():
    assert is_code("p = flopsight.profile(model)   # on every rank")
    assert COMMAND.match("flopsight show p.json")
    assert not is_code("costs     14.5 GFLOP forward, 11.7 M parameters")


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, _, text in blocks("json")])
def test_settings_on_a_page_are_settings(page, text):
    block = json.loads(text)["flops_profiler"]

    assert Settings.from_dict(block).profile_step == block["profile_step"]


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, _, text in blocks("toml")])
def test_budgets_on_a_page_are_budgets(page, text):
    assert parse_budget(tomllib.loads(text)).keys() == tomllib.loads(text).keys()
