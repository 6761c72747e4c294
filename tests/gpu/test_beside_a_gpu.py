"""Work on the CPU of a machine with a GPU: tests that mean the CPU alone hide the GPU, and a script need not."""

import os
import subprocess
import sys

import pytest
import torch
from script.running import SCRIPTS, plain, start

from flopsight.files.store import loads

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; CPU twins are in tests/script"
)


def test_scripts_that_tests_start_see_no_gpu(tmp_path):
    assert start(["-c", "import torch; print(torch.cuda.is_available())"], tmp_path).out == "False\n"


def test_a_script_on_the_cpu_runs_and_counts_the_same_with_the_gpu_in_sight(tmp_path):
    words = [sys.executable, "-m", "flopsight", "run", SCRIPTS / "by_hand.py"]

    done = subprocess.run(words, cwd=tmp_path, env=os.environ, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout == plain("by_hand.py").out
    (saved,) = tmp_path.glob("*.json")
    assert loads(saved.read_text()).macs == 3 * (5 * 4 + 4 * 2)
