"""One line a module with every figure, raw, for spreadsheets."""

from __future__ import annotations

import csv
import io

from ..analysis.tables import records
from ..tree import Profile


def render(profile: Profile) -> str:
    """The modules as comma-separated values, a header first; what is not known is empty."""
    rows = records(profile)
    page = io.StringIO()
    writer = csv.DictWriter(page, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()
