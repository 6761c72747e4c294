"""What `make` would do: every install is pinned, CI runs everything, and each lane can be run by name."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LANES = sorted(path.parent.name for path in ROOT.glob("tests/lanes/*/requirements.txt"))


def would_run(*targets):
    """The commands of a target as if nothing had been installed yet."""
    told = subprocess.run(["make", "--dry-run", "--always-make", *targets], cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.parametrize(
    "target",
    [
        "demo",
        "test",
        "test-random",
        "test-old-cpu",
        "lint",
        "bench",
        "docs",
        "dist",
        *(f"lane-{name}" for name in LANES),
    ],
)
def test_every_install_is_held_by_the_constraints(target):
    installs = [line for line in would_run(target).splitlines() if "pip install" in line]

    assert installs
    assert all("-c constraints.txt" in line for line in installs)


def test_a_lanes_own_installs_cannot_replace_torch():
    for script in ROOT.glob("tests/lanes/*/install.sh"):
        for line in re.findall(r".*pip install.*", script.read_text(encoding="utf-8")):
            assert "--no-deps" in line or "-c constraints.txt" in line, (script, line)


def test_the_constraints_pin_torch():
    assert re.search(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)


def test_demo_makes_an_environment_and_runs_the_demo():
    commands = would_run("demo")

    assert "-m venv .venv" in commands
    assert ".venv/bin/flopsight demo" in commands


def test_lanes_runs_every_lane_and_goes_on_after_a_failure():
    commands = would_run("lanes")

    assert "--keep-going --jobs=2 --output-sync=target" in commands  # what a lane prints stays in one piece
    assert all(f"lane-{name}" in commands for name in LANES)


def test_ci_runs_style_tests_and_lanes():
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert [line for line in script.read_text(encoding="utf-8").splitlines() if line.startswith("make")] == [
        "make lint",
        "make test",
        "make test-random",
        "make test-old-cpu",
        "make lanes",
    ]


def test_the_tests_run_with_a_worker_a_core_and_a_file_stays_with_one_worker():
    command, alone = [line for line in would_run("test").splitlines() if "-m pytest" in line]

    assert "-n auto --maxprocesses 8 --dist loadfile" in command
    assert command.endswith("--ignore tests/gpu")
    assert alone.endswith("-m pytest tests/gpu"), "what measures a device has it for itself"
    assert " -n 1 " in would_run("test", "WORKERS=1")


def test_a_random_order_can_be_repeated():
    assert re.search(r"--shuffle 7$", would_run("test-random", "SEED=7"), re.MULTILINE)
    assert re.search(r"-n 4 .*--shuffle \d+$", would_run("test-random"), re.MULTILINE)


def test_an_older_cpu_is_asked_of_both_libraries_that_choose_kernels_by_it():
    command = would_run("test-old-cpu")

    assert "ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 .venv/bin/python -m pytest" in command
    assert "tests/capture tests/training tests/agreement" in command
