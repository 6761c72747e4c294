"""The peak that a monitored CPU run shows is that of its own process."""

import subprocess
import sys

import pytest

FAT = 600 << 20
PARENT = """
import subprocess, sys
held = bytearray({fat})
held[::4096] = b"x" * len(held[::4096])
subprocess.run([sys.executable, "-c", {child!r}], check=True, close_fds=False)
"""
CHILD = """
import torch
from flopsight.loop.monitor.process_memory import memory_use
before = memory_use(torch.device("cpu")).peak
more = bytearray({more})
more[::4096] = b"x" * len(more[::4096])
del more
print(before, memory_use(torch.device("cpu")).peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a child inherits its parent's peak on Linux only")
def test_the_peak_of_a_child_is_not_that_of_the_process_that_started_it():
    more = 200 << 20
    parent = PARENT.format(fat=FAT, child=CHILD.format(more=more))

    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)

    before, after = map(int, done.stdout.split())
    assert 50 << 20 < before < FAT
    assert more <= after - before + (64 << 20)  # memory that was free before may be used again
