"""The house plan as data: the floors that a test holds, and `make house`, which writes what docs/architecture.md says of them."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "flopsight"
PAGE = ROOT / "docs" / "architecture.md"

FLOORS = (
    {
        "units": "numbers to text and back",
        "errors": "what a user can act on",
        "progress": "bars and lines while it works",
    },
    {
        "results": "what a user holds: plain values, frozen and without torch",
        "files": "values to JSON and back; files that are whole or not there; text that is safe to show",
        "config": "the settings of a configuration file",
    },
    {
        "capture": "watches a run and writes records; whatever is peculiar to torch",
        "formulas": "the price of a record; one file a family of ops",
        "hardware": "peaks, detection, measured ceilings",
        "zoo": "embedded models",
    },
    {
        "distributed": "the ranks around this one, and a mesh without its job",
    },
    {
        "analysis": "records to profile, passes, figures, limits, findings, the data of the report page",
        "distributed.join": "the profiles of all ranks as one job",
        "distributed.gather": "the same while the job runs",
    },
    {"render": "one file a format"},
    {"targets": "models by name: finding, checking and building them"},
    {"engine": "what the public functions run"},
    {"loop": "a step, or a window of steps, in the user's own loop"},
    {
        "script": "`flopsight run`",
        "doctor": "`flopsight doctor`",
    },
    {"compat": "the interfaces of the older profilers"},
    {
        "cli": "one file a command",
        "integrations": "one file a framework or tracker",
    },
)
"""From the ground up: what lives there. A module may import its own room and every floor below, never one above."""


def module_name(path):
    """`capture.count.tape` of its file; a package is named by its folder."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floors_text():
    """The floors as a table, the highest first."""
    rows = [
        f"| {', '.join(f'`{name}`' for name in floor)} | {'; '.join(floor.values())} |" for floor in reversed(FLOORS)
    ]
    return "\n".join(["| floor | what lives there |", "| --- | --- |", *rows])


def rooms_text():
    """Every file in the words of its own docstring, room by room."""
    rooms = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__init__.py" or path.parent.parent == SOURCE:
            rooms.setdefault(path.parent.relative_to(SOURCE).as_posix(), []).append(path)
    parts = []
    for room, paths in sorted(rooms.items()):
        names = [path for path in paths if path.name != "__init__.py"]
        title = "The root" if room == "." else f"`{room}/`"
        rows = [f"| `{path.name}` | {first_sentence(path)} |" for path in names]
        if rows:
            parts.append("\n".join([f"| {title} | |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def first_sentence(path):
    """The first paragraph of a module's docstring on one line, fit for a table."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


PARTS = {"floors": floors_text, "rooms": rooms_text}


def made_anew(page):
    """The page with every generated part replaced."""
    for name, text in PARTS.items():
        begin, end = f"<!-- {name}: written by `make house` -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{text()}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(made_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
