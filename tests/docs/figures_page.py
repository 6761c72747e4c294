"""docs/figures.md out of the book of figures: `make figures` writes it anew."""

from pathlib import Path

from flopsight.analysis.figures import BOOK, VIEWS

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
HEAD = """# Every figure

Each figure stands once in `src/flopsight/analysis/figures.py`, and every view draws from there. This page is generated from
it: `make figures` writes it anew.

- **key** is its name in code, budgets (`flopsight check`), CSV files and data frames.
- **of**: it is read from the *model* as a whole, from a *module* with its submodules, from a module *by itself*. A job reads
  a figure of the model from each rank's profile (`job.values("flops")`), a sweep from each point's.
- **adds up**: submodules add up to their module. Parameters do so unless modules share a tensor.
- **phase**: what it covers; without one it is about the module itself or the whole step.

| key | label | unit | what it is | of | adds up | phase | shown in |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
OF = {"of_profile": "model", "of_node": "module", "of_own": "by itself"}


def page():
    """The page as it has to be."""
    words = "\n".join(f"| {name} | {where} |" for name, where in VIEWS.items())
    return HEAD + "\n".join(map(line, BOOK.values())) + f"\n\n| shown in | |\n| --- | --- |\n{words}\n"


def line(figure):
    """One row of the table."""
    of = ", ".join(word for reader, word in OF.items() if getattr(figure, reader))
    adds = ("yes" if figure.adds else "no") if figure.of_node else ""
    cells = (
        f"`{figure.key}`",
        figure.label,
        figure.unit,
        figure.about,
        of,
        adds,
        figure.phase,
        ", ".join(figure.views.split()),
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
