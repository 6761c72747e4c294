"""Lets mkdocstrings show the examples of a docstring as code: in Markdown, `>>>` would be a quotation."""

import re

import griffe

EXAMPLE = re.compile(r"(?:^[ \t]*(?:>>>|\.\.\.).*\n?(?:^(?![ \t]*(?:>>>|\.\.\.)).+\n?)*)+", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts a fence around each example."""

    def on_object(self, *, obj: griffe.Object, **_more: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(found: re.Match[str]) -> str:
    example = re.sub(r"  # doctest: .*", "", found[0]).strip()
    return f"\n```pycon\n{example}\n```\n"
