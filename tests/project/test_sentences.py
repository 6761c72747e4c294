"""Docstrings, comments and messages of the source say it plainly: pairs of words that readers stumbled over do not come back."""

import io
import re
import tokenize

import pytest
from project.house import SOURCE

PLAINLY = {
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|other\b|\w+er than\b)": "is not an X, for: is no X",
    r"\b(?:None|True|False) where\b": "None if, for: None where",
    r"\bha(?:s|ve) (?:its|their|a|no) say\b": "what the thing does, for: has its say",
    r"\bspeaks? (?:of|when)\b": "names, is about, for: speaks of",
    r"\b(?:somebody|nobody|anybody)\b": "the thing that acts, for: somebody",
    r"\bWhat is said of\b": "the thing itself, for: what is said of",
}
"""What is not written, and what is written instead."""


def sentences(text):
    """The strings and comments of a Python file, line by line, with their numbers."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield from enumerate(token.string.split("\n"), start=token.start[0])


def found(text):
    return [(number, line) for number, line in sentences(text) for riddle in PLAINLY if re.search(riddle, line)]


def test_the_source_says_it_plainly():
    wrong = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := found(path.read_text(encoding="utf-8")))
    }

    assert not wrong, f"write {'; '.join(PLAINLY.values())}"


@pytest.mark.parametrize(
    "line",
    ['"""A limit that is no quantity."""', '"""The value; None where there is none."""', "# nobody listens any more"],
)
def test_a_riddle_is_noticed(line):
    assert found(line) == [(1, line)]


@pytest.mark.parametrize(
    "line", ['"There is no file."', '"it is no longer there"', '"None if"', "x = None  # is not a page"]
)
def test_plain_words_are_not_taken_for_riddles(line):
    assert found(line) == []
