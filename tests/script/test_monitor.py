"""`flopsight run --monitor`: every step of a script, with no change to it."""

import os
import signal
import subprocess
import sys

import pytest
from script.running import SCRIPTS, start

import flopsight

GAN = 8
"""Steps of the script."""


def test_a_script_is_monitored_as_it_is(tmp_path):
    done = start(
        ["-m", "flopsight", "run", "--monitor", "--every", "3", "-o", "run.json", SCRIPTS / "gan.py"], tmp_path
    )

    alone = start([SCRIPTS / "gan.py"], tmp_path)
    run = flopsight.load(tmp_path / "run.json")
    batch, noise, hidden, data = 5, 4, 16, 6
    make, judge = (batch * noise * hidden, batch * hidden * data), (batch * data * hidden, batch * hidden)
    generator = sum(make) + (sum(make) + make[1])
    real = sum(judge) + sum(judge) + judge[1]  # also of the forged data, which are detached
    through = real + judge[0]  # and on to the generator
    assert done.code == 0
    assert done.out == alone.out
    assert (run.steps, len(run.intervals)) == (GAN, 3)
    assert [interval.model_flops for interval in run.intervals] == [2 * (generator + 2 * real + through)] * 3
    assert "draw it: flopsight show run.json -o run.html" in done.err


def test_show_draws_the_file_as_text_and_as_a_page(tmp_path):
    start(["-m", "flopsight", "run", "--monitor", "-o", "run.json", SCRIPTS / "gan.py"], tmp_path)

    done = start(["-m", "flopsight", "show", "run.json", "-o", "run.html"], tmp_path)

    assert done.code == 0
    assert f"{GAN} steps" in done.out
    assert "<svg" in done.files["run.html"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(["--step", "3"], "--step chooses a step"), (["-o", "run.txt"], "must end in .json")],
)
def test_what_does_not_go_with_monitor_is_refused(words, complaint, tmp_path):
    done = start(["-m", "flopsight", "run", "--monitor", *words, SCRIPTS / "gan.py"], tmp_path)

    assert done.code == 2
    assert complaint in done.err


def test_a_script_that_does_not_train_says_so(tmp_path):
    done = start(["-m", "flopsight", "run", "--monitor", SCRIPTS / "inference.py"], tmp_path)

    assert done.code == 0
    assert "without a step of any optimizer" in done.err


def test_what_keeps_a_monitor_from_beginning_is_said_alone(tmp_path):
    (tmp_path / "run-rank0.json").mkdir()  # where the first of two ranks would write
    rank = os.environ | {"RANK": "0", "WORLD_SIZE": "2"}

    done = start(["-m", "flopsight", "run", "--monitor", "-o", "run.json", SCRIPTS / "gan.py"], tmp_path, rank)

    assert done.code == 0
    assert len(done.said) == 1
    assert "run-rank0.json" in done.err
    assert "did not import torch" not in done.err


FOLDS = """
import sys
import torch

def made(width):
    model = torch.nn.Linear(8, width, bias=False)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)

ready = [made(width) for width in (2, 3, 5)]
for width, beforehand in zip((2, 3, 5), ready):
    model, optimizer = beforehand if sys.argv[1] == "before" else made(width)
    for _ in range(4):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
"""


def folds(tmp_path, when):
    """FLOPs of each step of a script that trains three models one after the other."""
    (tmp_path / "folds.py").write_text(FOLDS)
    start(["-m", "flopsight", "run", "--monitor", "--every", "1", "-o", "run.json", "folds.py", when], tmp_path)
    return [interval.model_flops for interval in flopsight.load(tmp_path / "run.json").intervals]


def test_every_model_that_a_script_makes_and_trains_is_watched(tmp_path):
    assert folds(tmp_path, "late") == [2 * 2 * 4 * 8 * width for width in (2, 3, 5) for _ in range(4)]


def test_a_model_that_was_made_before_is_watched_from_its_second_step_on(tmp_path):
    # the first step of the second and third holds two updates, since another optimizer might end the step
    one, *others = [2 * 2 * 4 * 8 * width for width in (2, 3, 5)]
    assert folds(tmp_path, "before") == [one] * 4 + [flops for other in others for flops in (None, other, other)]


COMPILED = """
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

@torch.compile(backend="eager")
def loss(x):
    return model(x).sum()

loss(torch.randn(4, 8)).backward()
optimizer.step()
"""


def test_a_script_whose_model_is_called_in_compiled_code_is_told_so(tmp_path):
    (tmp_path / "hidden.py").write_text(COMPILED)

    done = start(["-m", "flopsight", "run", "--monitor", "hidden.py"], tmp_path)

    assert "hidden.py called no model that was seen, so nothing was monitored" in done.err
    assert "compile the model" in done.err


ENDLESS = """
import torch
model = torch.nn.Linear(8, 2, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while True:
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    step += 1
    if step == 25:
        print("now", flush=True)
"""


def test_what_was_measured_before_sigterm_is_saved_and_the_signal_ends_the_script(tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    words = [
        sys.executable,
        "-m",
        "flopsight",
        "run",
        "--monitor",
        "--every",
        "1000000",
        "-o",
        "run.json",
        "endless.py",
    ]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(words, cwd=tmp_path, text=True, **quiet)
    assert running.stdout.readline() == "now\n"
    running.send_signal(signal.SIGTERM)

    assert running.wait(60) == -signal.SIGTERM
    running.stdout.close()
    run = flopsight.load(tmp_path / "run.json")
    assert run.steps >= 24
    assert run.whole.model_flops == 2 * 2 * 4 * 8 * 2
