"""What the page's script takes from Python, so that it stands once: `make report` writes it to frontend/src/shared.json."""

import json
from pathlib import Path

from flopsight import units
from flopsight.render import latex, markdown, palette, rows

PATH = Path(__file__).resolve().parents[2] / "frontend" / "src" / "shared.json"


def text() -> str:
    """The constants as the file holds them."""
    shared = {
        "prefixes": units.PREFIXES,
        "times": units.TIMES,
        "hues": palette.HUES,
        "grey": palette.GREY,
        "kinds": palette.MEMORY_HUES,
        "phases": palette.PHASES,
        "latex": latex.SIGNS,
        "markdown": markdown.MARKUP.pattern,
        "formula": rows.FORMULA_SIGNS,
    }
    return json.dumps(shared, indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
