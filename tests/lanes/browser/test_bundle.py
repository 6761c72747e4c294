"""The committed script and style are what their source builds to, and small."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILT = ROOT / "src" / "flopsight" / "render" / "html"


def test_the_bundle_is_rebuilt_byte_for_byte():
    before = {name: (BUILT / name).read_bytes() for name in ("report.js", "report.css")}

    subprocess.run(["npm", "run", "--silent", "build"], cwd=ROOT / "frontend", check=True)

    assert {name: (BUILT / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("what", ["check", "test"])
def test_types_style_and_units_of_the_source(what):
    """The compiler and the linter find nothing, and the unit tests of tree, units, export, layout and colours pass."""
    subprocess.run(["npm", "run", "--silent", what], cwd=ROOT / "frontend", check=True)


def test_the_bundle_is_small():
    assert sum(len((BUILT / name).read_bytes()) for name in ("report.js", "report.css")) < 400_000
