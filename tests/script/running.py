"""Scripts as a user starts them: in a process of their own, with and without `flopsight run`."""

import importlib.util
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from interpreters import NO_GPU, WARM, fork, heed_ctrl_c

from flopsight.files.store import loads

SCRIPTS = Path(__file__).parent / "scripts"
FRESH = {"compiled.py", "language.py"}
"""Scripts that start in an interpreter of their own, which imports torch and its compiler while they run."""


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
    """Run what follows `python` on a command line, in a fresh interpreter."""
    words = [sys.executable, *map(str, words)]
    env = (env or os.environ) | NO_GPU
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=env, preexec_fn=heed_ctrl_c)
    return Done(done.returncode, done.stdout, done.stderr, _files(folder))


def start_warm(words, folder, env=None, imports=WARM):
    """Run the same in a fork of an interpreter that has its slow imports behind it."""
    done = fork(words, folder, imports, env)
    return Done(done.code, done.out, done.err, _files(folder))


def _files(folder):
    return {path.name: path.read_text() for path in sorted(Path(folder).iterdir()) if path.is_file()}


@cache
def plain(script, *args):
    """A script of ours, by itself."""
    run = start if (script in FRESH and not args) else start_warm
    with TemporaryDirectory() as folder:
        return run([SCRIPTS / script, *args], folder)


@cache
def profiled(script, *args, flags=()):
    """The same script under `flopsight run`."""
    run = start if (script in FRESH and not args and not flags) else start_warm
    with TemporaryDirectory() as folder:
        return run(["-m", "flopsight", "run", *flags, SCRIPTS / script, *args], folder)


BAD_LUCK = ("terminate called without an active exception", "EADDRINUSE")
"""What is not the script's doing: gloo aborts a process at its very end now and then; a free port is taken meanwhile."""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def torchrun(folder, *words):
    """Two ranks with gloo, started again after bad luck."""
    for attempt in range(5):
        place = folder / str(attempt)
        place.mkdir(parents=True)
        start_two = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
        done = start_warm([*start_two, *words], place, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if not any(sign in done.err for sign in BAD_LUCK):
            break
    return done


def module(script):
    """The script as a module, for the models in it."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, SCRIPTS / script)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
