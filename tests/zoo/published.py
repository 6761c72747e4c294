"""The rows of the profiles that the original tools printed, and their way of writing numbers."""

import csv
from pathlib import Path

ROWS = Path(__file__).parent.parent / "data" / "older"


def rows(name: str) -> dict[str, dict[str, str]]:
    """A printed profile by module path."""
    with (ROWS / f"{name}.tsv").open(newline="") as file:
        return {row["path"]: row for row in csv.DictReader(file, delimiter="\t")}


def params_text(number: int) -> str:
    """61706 is '61.71 k'."""
    for size, prefix in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if number >= size:
            return f"{round(number / size, 2)}{prefix}"
    return str(number)


def macs_text(number: int) -> str:
    """860160 is '860.16 KMACs'."""
    for size, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return f"{round(number / size, 2)} {prefix}MACs"
    return f"{number} MACs"
