"""A profile as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.tables import records
from ..errors import InputError
from ..results.profile import Profile


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
