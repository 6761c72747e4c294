"""One row a module with every figure, raw: as comma-separated values for spreadsheets, or as a pandas DataFrame."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.tables import records
from ..errors import InputError
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
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(
        [_plain(value) if isinstance(value, str) else value for value in map(row.get, names)] for row in rows
    )
    return page.getvalue()


def _plain(value: str) -> str:
    """A text that a spreadsheet would run as a formula, behind an apostrophe."""
    text = printable(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text


def to_frame(profile: Profile) -> Any:
    """One row a module, indexed by its qualified name, with every figure raw."""
    return data_frame(records(profile)).set_index("path")


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a DataFrame."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("to_frame() needs pandas, which is not installed: pip install pandas.") from None
    return pd.DataFrame(rows)
