"""The one place that makes text safe to show: control characters, terminal escapes and lone surrogates become visible."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """The text with every character escaped that does not print, as `repr` does it; those in `keep` stay."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


def one_line(text: str) -> str:
    """A sentence on one line: spaces for line breaks and tabs, everything else that does not print escaped."""
    return text if text.isprintable() else printable(" ".join(text.split()))
