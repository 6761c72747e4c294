"""Real processes for tests: all cases of one world size run in one job, and every rank hands back what it saw."""

import faulthandler
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).parents[1]
LONGEST = 600
"""Seconds after which a job that hangs ends with a traceback of where every thread is; a busy machine needs 200."""


class Failed(str):
    """The traceback of a case that raised."""

    __slots__ = ()


def run_ranks(module, size):
    """Run the `CASES` of a module on so many ranks; gives {case: [result by rank]}."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",  # with a GPU in sight, torch's own hooks wait for it: powerSGD on CPU tensors
            "WORLD_SIZE": str(size),
        }
        ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "distributed.processes", module, folder],
                env=environment | {"RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(size)
        ]
        said = [rank.communicate()[0] for rank in ranks]
        found = {}
        for rank in range(size):
            path = Path(folder) / f"{rank}.pickle"
            assert path.exists(), said[rank]
            for name, result in pickle.loads(path.read_bytes()).items():
                found.setdefault(name, [None] * size)[rank] = result
    return found


def checked(found, name):
    """The results of a case, by rank; its own traceback where it raised."""
    for result in found[name]:
        assert not isinstance(result, Failed), result
    return found[name]


def _work(module, folder):
    import torch
    from torch import distributed

    faulthandler.dump_traceback_later(LONGEST, exit=True)
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    found = {}
    path = Path(folder) / f"{rank}.pickle"
    for name, case in import_module(module).CASES.items():
        torch.manual_seed(0)
        try:
            found[name] = case()
        except Exception:
            found[name] = Failed(traceback.format_exc())
        path.write_bytes(pickle.dumps(found))
    os._exit(0)  # a rank that is gone on purpose would let the others wait at the end


if __name__ == "__main__":  # by its name, so that the parent can load a `Failed` that was saved here
    import_module("distributed.processes")._work(*sys.argv[1:])
