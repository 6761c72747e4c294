"""Whole pages, frozen, and each also checked for adding up: the sum catches what was wrong when the page was frozen.

`pytest tests/render/test_golden.py --bless` writes them anew.
"""

import re
from pathlib import Path

import pytest
from profiles import lenet, oddities, stack

from flopsight.render import render

GOLDEN = Path(__file__).parent.parent / "golden"
PROFILES = {"lenet": lenet, "stack": stack, "oddities": oddities}
OPTIONS = {
    "tree": {"width": 120},
    "table": {"width": 120},
    "memory": {"width": 120},
    "aprofiler": {"top_modules": 2},
    "deepspeed": {"top_modules": 3},
}
SCALE = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("format", ["tree", "table", "memory", "deepspeed", "tids", "aprofiler", "markdown", "csv"])
def test_the_page_is_as_it_was_blessed(name, format, bless):
    profile = PROFILES[name]()
    text = render(profile, format, **OPTIONS.get(format, {}))
    path = GOLDEN / f"{name}_{format}.txt"
    if bless:
        path.write_text(text)

    assert text == path.read_text(encoding="utf-8")


def golden(name, format):
    return (GOLDEN / f"{name}_{format}.txt").read_text(encoding="utf-8")


def number(text):
    value, prefix = re.fullmatch(r"([\d.]+) ?([kKMGT]?)", text.strip()).groups()
    return float(value) * SCALE[prefix]


def cells(line, title, header):
    """The text under a right-justified column title."""
    end = header.index(title) + len(title)
    start = max(header.rfind(" ", 0, header.index(title)), 0)
    return line[max(0, min(start, end - 8)) : end].strip().rsplit("  ", 1)[-1]


@pytest.mark.parametrize(("name", "total"), [("lenet", 872_826_880), ("stack", 87_015_567_408)])
def test_rows_below_the_root_of_a_printed_tree_add_up_to_it(name, total):
    header, rule, *lines = golden(name, "tree").split("\n\n")[2].splitlines()
    top = [line for line in lines if re.match(r"  \S", line)]

    printed = sum(number(cells(line, "FLOPs", header)) for line in top)

    assert printed == pytest.approx(total, rel=0.005)
    assert number(cells(lines[0], "FLOPs", header)) == pytest.approx(total, rel=0.005)


@pytest.mark.parametrize(("name", "total"), [("lenet", 872_826_880), ("stack", 87_015_567_408), ("oddities", 10_792)])
def test_the_rows_of_a_printed_table_add_up_to_the_whole(name, total):
    header, rule, *lines = golden(name, "table").split("\n\n")[1].splitlines()

    known = [cells(line, "FLOPs", header) for line in lines]

    assert sum(number(text) for text in known if text != "?") == pytest.approx(total, rel=0.005)


def test_leaves_of_the_detailed_tree_add_up_to_its_root():
    lines = golden("lenet", "deepspeed").splitlines()
    root = next(line for line in lines if "100.00% Params" in line)
    leaves = [line for line in lines if line.endswith(")") and "% Params" in line]

    def macs(line):
        return number(re.search(r"([\d.]+ [KMG]?)MACs", line)[1])

    assert len(leaves) == 11
    assert sum(map(macs, leaves)) == pytest.approx(macs(root), rel=0.001)
    assert macs(root) == pytest.approx(426_516_480, rel=1e-4)
    assert sum(float(re.search(r"([\d.]+)% MACs", line)[1]) for line in leaves) == pytest.approx(100, abs=0.1)


def test_parameters_of_the_tids_leaves_add_up_to_its_root():
    lines = golden("lenet", "tids").splitlines()
    params = [int(re.search(r"num_params (\d+)", line)[1]) for line in lines]
    leaves = [n for line, n in zip(lines, params, strict=True) if line.startswith(" " * 16)]

    assert sum(leaves) == params[0] == 61_706


def test_depth_totals_of_aprofiler_agree_from_depth_to_depth():
    page = golden("lenet", "aprofiler")
    depths = re.findall(r"macs:       - (\{.*\})", page)
    sums = [sum(number(text) for text in eval(found).values()) for found in depths]

    assert sums[0] == pytest.approx(sums[1], rel=1e-3)
    assert sums[0] == pytest.approx(sums[2], rel=1e-3)  # two classes at the deepest level, both printed


def test_own_flops_of_the_csv_add_up_to_its_root():
    header, first, *rest = (line.split(",") for line in golden("lenet", "csv").splitlines())
    column, whole = header.index("own_flops"), header.index("flops")

    assert sum(int(row[column]) for row in [first, *rest]) == int(first[whole]) == 872_826_880
