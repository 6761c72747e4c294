"""How a value shows itself in a notebook."""

from __future__ import annotations

from typing import Any


class InNotebooks:
    """A value that a notebook shows as HTML; everything else shows its `repr`."""

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, str]:
        """What a notebook asks for."""
        from ..render.notebook import html_of

        return {"text/plain": repr(self), "text/html": html_of(self)}
