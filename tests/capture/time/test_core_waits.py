"""Cores that other programs have: how long a process waited for one, and what a profile says of it."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from threading import get_native_id

import pytest
import torch
from fake_clock import FakeClock
from interpreters import fork
from torch import nn

from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time.core_waits import core_waits
from flopsight.capture.time.latency import measure_latency
from flopsight.results.caveats import CrowdedCores

counts_waits = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists() or not hasattr(os, "sched_setaffinity"),
    reason="this system does not count how long a thread waits for a core",
)


class Waits(nn.Module):
    """A second of work, in front of which the thread waits for a core; another thread waits a tenth of that."""

    def __init__(self, time, seconds):
        super().__init__()
        self.time, self.seconds, self.waited = time, seconds, 7.0  # seven before anything was timed

    def forward(self, x):
        self.waited += self.seconds
        self.time.pass_by(1.0 + self.seconds)
        return x

    def waits(self):
        return {"1": self.waited, "2": self.waited / 10}


def crowded(seconds):
    time = FakeClock()
    model = Waits(time, seconds)
    clock = replace(time.clock, core_waits=model.waits)
    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=0, repeats=4, clock=clock)
    return [doubt for doubt in found.caveats if isinstance(doubt, CrowdedCores)]


def test_the_share_is_that_of_the_thread_which_waited_longest():
    (doubt,) = crowded(0.25)

    assert doubt.share == pytest.approx(0.25 / 1.25)
    assert "waited for a free core 20% of the time" in str(doubt)


def test_short_waits_are_no_doubt():
    assert crowded(0.1) == []  # 1 / 11 of the time
    assert crowded(0.0) == []


BESIDE_A_BUSY_PROGRAM = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
import torch
import flopsight
torch.set_num_threads(1)
p = flopsight.profile(torch.nn.Linear(512, 512), input_shape=(512, 512), warmup=1, repeats=20)
print([type(doubt).__name__ for doubt in p.caveats])
"""


@counts_waits
def test_a_profile_beside_a_busy_program_says_that_it_waited(tmp_path):
    core = min(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    script = tmp_path / "beside.py"
    script.write_text(BESIDE_A_BUSY_PROGRAM)
    busy = Popen([sys.executable, "-c", loop])
    try:
        answer = fork([script, str(core)], tmp_path)
    finally:
        busy.kill()
        busy.wait()

    assert answer.code == 0, answer.err
    assert "'CrowdedCores'" in answer.out


@counts_waits
def test_the_waits_of_this_thread_are_among_them():
    assert core_waits()[str(get_native_id())] >= 0.0
