"""The lines of Python on docs/deepspeed.md, with the configuration below them, make an engine that prints our profile."""

import json
import re

from docs import pages
from lanes.deepspeed.engines import launch

BEFORE = """
import os
os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed, torch
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
model = torch.nn.Linear(64, 10)
"""
AFTER = """
for _ in range(3):
    engine.backward(engine(torch.ones(4, 64)).sum())
    engine.step()
print(engine.flops_profiler.profile.macs, "MACs")
"""
MORE = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
}


def test_the_lines_of_the_page_make_an_engine_that_prints_our_profile(tmp_path, monkeypatch):
    ((_, lines),) = pages.python("docs/deepspeed.md")
    (block,) = re.findall(r"```json\n(.*?)```", pages.text("docs/deepspeed.md"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds_config.json").write_text(json.dumps(json.loads(block) | MORE))
    (tmp_path / "script.py").write_text(BEFORE + lines + AFTER)

    done = launch(1, tmp_path / "script.py")

    assert "Profile Summary at step 1:" in done.stdout
    assert f"{4 * 64 * 10} MACs" in done.stdout
