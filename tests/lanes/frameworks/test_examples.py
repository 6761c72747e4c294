"""The examples run as they are, and print what their models cost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
TOKENS = 32

LLAMA = 2 * (TOKENS * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) + 2 * TOKENS * TOKENS * 64) + TOKENS * 64 * 256
PERCEPTRON = 64 * 256 + 256 * 10
RESNET = 37_523_456  # as in test_lightning.py, where it is worked by hand


@pytest.mark.parametrize(
    ("example", "macs"),
    [("trainer_llama", 2 * 4 * LLAMA), ("accelerate_loop", 2 * 16 * PERCEPTRON), ("lightning_resnet", 4 * RESNET)],
)
def test_an_example_prints_its_macs(example, macs, tmp_path):
    command = [sys.executable, EXAMPLES / f"{example}.py"]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=one_thread, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert f"{macs:,} MACs a step" in done.stdout
