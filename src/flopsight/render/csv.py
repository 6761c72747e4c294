"""One line a module with every figure, raw, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.tables import records
from ..files.printable import printable
from ..results.profile import Profile

FORMULA_SIGNS = ("=", "+", "-", "@")


def render(profile: Profile) -> str:
    """The modules as comma-separated values, a header first; what is not known is empty."""
    rows = records(profile)
    return csv_text(rows, list(rows[0]))


def csv_text(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows as comma-separated values under these names."""
    page = io.StringIO()
    writer = csv.DictWriter(page, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return page.getvalue()


def _plain(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, behind an apostrophe; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text
