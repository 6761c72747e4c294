"""Python processes for tests, forked from an interpreter that has done the slow imports once.

A case still is a process of its own that runs the same code as `python -m ...` or `python script.py` and ends as Python
ends. Only the import of torch, most of the time of a small script, is not repeated.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

SERVER = Path(__file__).parent / "fork_server.py"
LIGHT = ("flopsight.cli",)
"""Imports of an interpreter without torch."""
WARM = ("torch", "torch._dynamo", "typer", "rich.console")
"""Imports of an interpreter in which torch is ready: `torch._dynamo` is what the first optimizer imports."""
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""The cases run on the CPU, where torch does some things that it refuses beside a GPU: backward after a fork, say."""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def fork(words, folder, imports=WARM, env=None, stdin=""):
    """Run what follows `python` on a command line, in a fork of the interpreter with these imports."""
    if not hasattr(os, "fork"):  # Windows: the same, slower
        command = [sys.executable, *map(str, words)]
        env = (env or os.environ) | NO_GPU
        done = subprocess.run(command, cwd=folder, env=env, input=stdin, capture_output=True, text=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)
    with TemporaryDirectory() as exchange:
        paths = [Path(exchange, name) for name in ("stdin", "stdout", "stderr")]
        paths[0].write_text(stdin)
        case = {
            "words": list(map(str, words)),
            "folder": str(folder),
            "env": (env or os.environ) | NO_GPU,
            "streams": list(map(str, paths)),
        }
        code = _server(imports).ask(case)
        return Answer(code, *(path.read_text() for path in paths[1:]))


@cache
def _server(imports):
    return _Server(imports)


class _Server:
    """The interpreter that forks; it ends when its stdin is closed."""

    def __init__(self, imports):
        self._process = subprocess.Popen(
            [sys.executable, SERVER, *imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | NO_GPU,
            preexec_fn=heed_ctrl_c,
        )
        atexit.register(self._process.communicate)

    def ask(self, case):
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def heed_ctrl_c():
    """Undo what a shell in the background sets for its children: to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
