"""The committed script and style are what their source builds to, and small."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUILT = ROOT / "src" / "flopsight" / "render" / "html"


def test_the_bundle_is_rebuilt_byte_for_byte():
    before = {name: (BUILT / name).read_bytes() for name in ("report.js", "report.css")}

    subprocess.run(["npm", "run", "--silent", "build"], cwd=ROOT / "frontend", check=True)

    assert {name: (BUILT / name).read_bytes() for name in before} == before


def test_the_bundle_is_small():
    assert sum(len((BUILT / name).read_bytes()) for name in ("report.js", "report.css")) < 1_200_000
