"""Ask every tool every case, time it, and write docs/data/peers.json, docs/peers.md and its pictures: `make peers`.

`make peers ONLY="page"` writes the page anew from the JSON; names of tools ask only those again. A tool takes about half a minute on a quiet core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from time import perf_counter

from peers import environments, page
from peers.tools import TOOLS, Tool

DRAWER = Tool("pictures", "matplotlib", len)
"""The environment that draws."""


def asked(tool: Tool) -> dict:
    """Everything that a tool says, from a process in its environment."""
    words = [environments.python(tool), "-m", "peers.worker", tool.name]
    done = subprocess.run(words, env=settings(), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def settings() -> dict[str, str]:
    """The surroundings of a process that asks."""
    paths = os.pathsep.join(str(environments.ROOT / part) for part in ("tests", "src"))
    return {**os.environ, "PYTHONPATH": paths, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}


def main(names: list[str]) -> None:
    found = page.stored()
    for tool in (TOOLS[name] for name in (names or TOOLS) if name != "page"):
        start = perf_counter()
        environments.make(tool)
        installed = perf_counter()
        found["tools"][tool.name] = asked(tool)
        print(
            f"{tool.name:<18} installed in {installed - start:4.0f} s, asked in {perf_counter() - installed:4.0f} s",
            flush=True,
        )
        page.store(found)
    page.write(found)
    environments.make(DRAWER)
    subprocess.run([environments.python(DRAWER), "-m", "peers.plots"], env=settings(), check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
