"""Runs of worker.py: which cases, on how many processes, and what they wrote down."""

import json
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import flopsight

WORKER = Path(__file__).with_name("worker.py")
TRIES = 4
GLOO_ABORTS = "terminate called without an active exception"
"""What a process of torch 2.13 with a gloo group now and then says instead of ending, with and without a profiler."""


@dataclass(frozen=True)
class Result:
    """What one engine printed and left behind, on every rank; the profile is rank 0's."""

    ranks: list[dict]
    profile: flopsight.Profile | None

    @property
    def text(self):
        return self.ranks[0]["text"]

    @property
    def pages(self):
        """Each profile that was printed, without what the engine logs around it."""
        found = re.findall(r"^-+ (?:DeepSpeed )?Flops Profiler -+$.*?^-{78}$", self.text, re.DOTALL | re.MULTILINE)
        return [page for page in found if "Profile Summary" in page]

    def fact(self, label, page=0):
        """The value after a label of the summary."""
        (value,) = re.findall(rf"^{re.escape(label)}: +(.*?) *$", self.pages[page], re.MULTILINE)
        return value


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def launch(processes, script, *words):
    """Run a script on several processes, as torchrun does."""
    for _ in range(TRIES):
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--master-port={free_port()}"]
        done = subprocess.run([sys.executable, *launcher, str(script), *words], capture_output=True, text=True)
        if GLOO_ABORTS not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def run(folder, processes, **cases):
    """One process group, one engine a case."""
    launch(processes, WORKER, str(folder), json.dumps([{"name": name} | case for name, case in cases.items()]))
    facts = [json.loads((folder / f"facts-{rank}.json").read_text()) for rank in range(processes)]
    return {
        name: Result(
            [rank[name] for rank in facts],
            flopsight.load(folder / f"{name}.json") if case["profiler"] == "ours" else None,
        )
        for name, case in cases.items()
    }
