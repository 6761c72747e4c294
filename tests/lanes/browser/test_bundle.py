"""The committed script and style are what their source builds to, and small."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from flopsight import units

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


def test_the_page_writes_numbers_as_python_does(tmp_path):
    draw = random.Random(28)
    values = [0, 1, 156, 999.5, 0.9995, 9.996, 0.0005, 0.00049, 0.9995, 1.0, 12.0]
    values += [draw.choice((1, -1)) * draw.uniform(1, 10) * 10.0 ** draw.randint(-9, 19) for _ in range(2000)]
    script = tmp_path / "units.mjs"
    bundle = [
        "node_modules/.bin/esbuild",
        "src/units.ts",
        "--bundle",
        "--format=esm",
        f"--outfile={script}",
        "--log-level=error",
    ]
    subprocess.run(bundle, cwd=ROOT / "frontend", check=True)
    code = f"import {{ percent, seconds, si }} from '{script}'; import {{ readFileSync }} from 'node:fs';"
    code += "const values = JSON.parse(readFileSync(0)); console.log(JSON.stringify([si, seconds, percent].map((one) => values.map((value) => one(value)))))"
    run = subprocess.run(
        ["node", "--input-type=module", "-e", code],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=True,
    )

    for write, found in zip((units.si, units.seconds, units.percent), json.loads(run.stdout), strict=True):
        pairs = [
            (value, text)
            for value, text in zip(values, found, strict=True)
            if write is not units.percent or abs(value) < 10
        ]
        assert [text for _, text in pairs] == [write(value) for value, _ in pairs]


def test_the_bundle_is_small():
    assert sum(len((BUILT / name).read_bytes()) for name in ("report.js", "report.css")) < 400_000
