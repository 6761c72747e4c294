"""The pages of the documentation as data: their tables, and their Python, which runs and is held to its comments."""

import ast
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(["README.md", "CHANGELOG.md", *(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/*.md"))])
ARITHMETIC = re.compile(r"[\d\s.,+\-*/()e]+")


class Row(NamedTuple):
    """One line of a table, by the names of its columns."""

    header: tuple[str, ...]
    cells: dict[str, str]


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def tables(page):
    """Every table of a page, a list of rows each."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text(page), re.MULTILINE):
        header, _, *lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        found.append([Row(tuple(header), dict(zip(header, line, strict=True))) for line in lines])
    return found


def number(written):
    """What a cell or a comment says: `2*64 + 8` = 136, a plain number, or 1,024. Both sides have to agree."""
    sides = [reckoned(side) for side in written.replace("`", "").split(" = ")]
    assert len(set(sides)) == 1, f"{written}: {sides}"
    return sides[0]


def reckoned(sum_):
    """A sum of literals, exactly."""
    assert ARITHMETIC.fullmatch(sum_), sum_
    exact = re.sub(r"(?<![\d.])(\d+\.?\d*(?:e[+-]?\d+)?)", r"Fraction('\1')", sum_.replace(",", ""))
    return eval(exact, {"Fraction": Fraction})


def python(page):
    """The blocks of Python on a page, in order, with the line where each begins."""
    page = text(page)
    return [
        (page[: found.start(1)].count("\n") + 1, found[1])
        for found in re.finditer(r"```python\n(.*?)```", page, re.DOTALL)
    ]


def run(page):
    """Run a page's Python from top to bottom; an expression with a value behind it, `p.macs  # 64`, has to have it.

    Says how many values were held.
    """
    names, held = {"__name__": "__main__"}, 0
    for first_line, block in python(page):
        for statement in ast.parse(block).body:
            ast.increment_lineno(statement, first_line - 1)
            place = f"{page}:{statement.lineno}"
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), place, "exec"), names)
                continue
            value = eval(compile(ast.Expression(statement.value), place, "eval"), names)
            held += hold(value, comment(block, statement.end_lineno - first_line), place)
    return held


def comment(block, line):
    """What is written behind the code of a line."""
    found = re.search(r"  # (.*)", block.splitlines()[line])
    return found[1].strip() if found else ""


def hold(value, said, place):
    """Compare a value with a comment that states one; any other comment is prose, and nothing is held."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and all(map(ARITHMETIC.fullmatch, said.split(" = ")))
    ):
        assert abs(value - number(said)) <= 1e-9 * abs(value), f"{place}: {value}, not {said}"
        return True
    try:
        stated = ast.literal_eval(said)
    except (SyntaxError, ValueError):
        return False
    assert value == stated, f"{place}: {value!r}, not {said}"
    return True


if __name__ == "__main__":
    print(run(sys.argv[1]))
