"""Saved profiles are loaded, drawn and compared where torch is not installed."""

import subprocess
import sys

import pytest
from profiles import stack

from flopsight.render.formats import FORMATS, PRINTED

FORMATS = [name for name in PRINTED if not FORMATS[name].needs_timeline]

LAST = "; import sys; sys.exit('torch' in sys.modules)"


def run(code):
    return subprocess.run([sys.executable, "-c", code + LAST], capture_output=True, text=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return stack(2, width=8).save(tmp_path_factory.mktemp("saved") / "p.json")


def test_importing_the_views_does_not_import_torch():
    code = "; ".join(
        f"import flopsight.{name}"
        for name in ("render", "files.store", "formulas", "analysis.compare", "analysis.budget", "analysis.tables")
    )

    done = run(code)

    assert done.returncode == 0, done.stderr


def test_drawing_in_every_format_does_not_import_torch(saved, tmp_path):
    code = (
        f"import flopsight; p = flopsight.load({str(saved)!r}); [p.render(f) for f in {FORMATS}]; str(p); "
        f"p.to_html({str(tmp_path / 'p.html')!r}); str(flopsight.compare(p, p))"
    )

    done = run(code)

    assert done.returncode == 0, done.stderr


def test_drawing_works_where_torch_cannot_be_imported(saved):
    code = f"import sys; sys.modules['torch'] = None; import flopsight; print(flopsight.load({str(saved)!r})); del sys.modules['torch']"

    done = run(code)

    assert done.returncode == 0, done.stderr
    assert "Classifier" in done.stdout


def test_the_check_can_fail():
    assert run("import torch").returncode == 1
