"""Runs examples/deepspeed_engine.py as it is, over gloo, without the op that a compiler would have to build."""

import os
import runpy
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # noqa: E402

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
runpy.run_path(str(Path(__file__).parents[3] / "examples" / "deepspeed_engine.py"), run_name="__main__")
