"""Loops that end badly, or have no optimizer: training goes as without us, and what was measured is saved."""

import signal
import subprocess
import sys

import pytest
import torch
from loop.monitor.training import OUT, WIDE, mlp, mlp_flops, model_flops, rows

import flopsight

TRAINING = """
import resource, signal, torch
import flopsight

torch.manual_seed(0)
model = torch.nn.Linear(8, 2, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step():
    loss = model(torch.randn(4, 8)).square().sum()
    loss.backward()
    optimizer.step()
    return loss.item()
"""
FULL_DISK = f"""{TRAINING}
MOST = 20_000
resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))  # no file may grow beyond
with flopsight.monitor(model, optimizer, every=1, to="run.jsonl"):
    for _ in range(300):
        print(step())
"""
ALONE = f"""{TRAINING}
for _ in range(300):
    print(step())
"""
TERMINATED = f"""{TRAINING}
with flopsight.monitor(model, optimizer, every=1000, to="run.jsonl"):
    for number in range(30):
        step()
    signal.raise_signal(signal.SIGTERM)
    print("not reached")
"""


def start(script, folder):
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="a limit for the size of files needs Unix")
def test_a_disk_that_is_full_is_said_once_and_the_loop_trains_on(tmp_path):
    done = start(FULL_DISK, tmp_path)

    assert (done.returncode, done.stdout) == (0, start(ALONE, tmp_path).stdout)
    assert done.stderr.count("run.jsonl cannot be written") == 1
    run = flopsight.load(tmp_path / "run.jsonl")
    assert 0 < run.steps < 300
    assert {interval.model_flops for interval in run.intervals} == {2 * 2 * 4 * 8 * 2}


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a process at once on Windows")
def test_sigterm_ends_a_loop_as_without_us_and_what_was_measured_is_there(tmp_path):
    done = start(TERMINATED, tmp_path)

    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
    run = flopsight.load(tmp_path / "run.jsonl")
    assert run.steps == 30
    assert run.whole.model_flops == 2 * 2 * 4 * 8 * 2


def test_a_loop_without_an_optimizer_says_where_its_steps_end():
    model, seen = mlp(), []
    with flopsight.monitor(model, every=1, to=seen.append) as live:
        for count in (3, 4):
            model(rows(count)).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
            live.step()

    assert model_flops(seen) == [mlp_flops(3), mlp_flops(4)]


def test_of_two_models_the_one_that_never_runs_adds_nothing():
    used, idle, seen = torch.nn.Linear(WIDE, OUT, bias=False), mlp(), []
    optimizer = torch.optim.SGD([*used.parameters(), *idle.parameters()], lr=0.01)
    with flopsight.monitor([used, idle], optimizer, every=1, to=seen.append):
        used(rows(5)).sum().backward()
        optimizer.step()

    assert model_flops(seen) == [2 * 2 * 5 * WIDE * OUT]
