"""What a value that a user holds does by itself: it shows itself in a notebook, prints in any format, and saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class InNotebooks:
    """A value that a notebook shows as HTML; everything else shows its `repr`."""

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, str]:
        """What a notebook asks for."""
        from ..render.notebook import html_of

        return {"text/plain": repr(self), "text/html": html_of(self)}


class Shown(InNotebooks):
    """A value that `flopsight show` draws in all its formats."""

    def render(self, format: str = "tree", **options: Any) -> str:
        """It as text: `format` is one that `flopsight show` knows, `options` are its flags, `depth=2`."""
        from ..render import render

        value: Any = self
        return render(value, format, **options)

    def save(self, path: str | Path) -> Path:
        """Write it to `path` as JSON; `flopsight.load` reads it back."""
        from ..files.store import save

        value: Any = self
        return save(value, path)

    def __str__(self) -> str:
        return self.render("tree")
