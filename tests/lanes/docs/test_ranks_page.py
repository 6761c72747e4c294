"""The Python of docs/distributed.md: on two processes what needs a job, and in one the rank of a job that does not run."""

import re

from docs import pages
from interpreters import fork

NAMES = """
import flopsight
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model, x = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 4))), torch.ones(2, 8)
"""
AFTER = """
assert p.macs == p.whole.macs == 2 * 8 * 4
assert (job is None) == (dist.get_rank() == 1)
assert job is None or len(job.ranks) == p.world.size == 2
dist.destroy_process_group()
"""


def block(text):
    """The block of the page that has a text in it."""
    (found,) = [
        each for each in re.findall(r"```py\n(.*?)```", pages.text("docs/distributed.md"), re.DOTALL) if text in each
    ]
    return found


def test_a_job_of_two_ranks(tmp_path):
    (tmp_path / "job.py").write_text(NAMES + block("flopsight.gather") + AFTER)

    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "job.py"]
    done = fork(words, tmp_path)

    assert done.code == 0, done.err


def test_a_rank_without_its_job(tmp_path):
    names = {}
    exec(f"import flopsight\n{block('mesh=')}", names)

    assert names["p"].dry_run
    assert names["p"].whole.params == 70_553_706_496  # as Meta's checkpoint has them
