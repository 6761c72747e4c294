"""Scripts as a user starts them: in a process of their own, with and without `flopsight run`."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from flopsight.store import loads

SCRIPTS = Path(__file__).parent / "scripts"
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""The scripts train on the CPU, where torch does some things that it refuses beside a GPU: backward after a fork, say."""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str
    files: dict[str, str]
    """What the script left in its folder, by name."""

    @property
    def profile(self):
        (text,) = [text for name, text in self.files.items() if name.endswith(".json")]
        return loads(text)

    @property
    def said(self):
        """The lines that are ours and no view."""
        return [line for line in self.err.splitlines() if line.startswith("flopsight: ")]


def start(words, folder, env=None):
    words = list(map(str, words))
    env = (env or os.environ) | NO_GPU
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=env, preexec_fn=heed_ctrl_c)
    files = {path.name: path.read_text() for path in sorted(Path(folder).iterdir()) if path.is_file()}
    return Done(done.returncode, done.stdout, done.stderr, files)


def heed_ctrl_c():
    """A shell in the background has its children ignore the signal that the scripts here are about."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@cache
def plain(script, *args):
    """A script of ours, by itself."""
    with TemporaryDirectory() as folder:
        return start([sys.executable, SCRIPTS / script, *args], folder)


@cache
def profiled(script, *args, flags=()):
    """The same script under `flopsight run`."""
    with TemporaryDirectory() as folder:
        return start([sys.executable, "-m", "flopsight", "run", *flags, SCRIPTS / script, *args], folder)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def torchrun(folder, *words):
    """Two ranks with gloo, which now and then aborts a process at its very end, with or without us."""
    for attempt in range(5):
        place = folder / str(attempt)
        place.mkdir(parents=True)
        start_two = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
        done = start([sys.executable, *start_two, *words], place, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if "terminate called without an active exception" not in done.err:
            break
    return done


def module(script):
    """The script as a module, for the models in it."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, SCRIPTS / script)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
