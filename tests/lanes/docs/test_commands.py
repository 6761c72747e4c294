"""Every command of every page runs, in the order of the page, in a folder that has the files which the page speaks of."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs import pages, shown_output
from interpreters import fork

import flopsight

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)
PAGES = [page for page in pages.PAGES if BLOCK.search(pages.text(page))]
ELSEWHERE = {
    "make": "a target of the Makefile; this test looks it up",
    "pip": "the wheel lane installs",
    "python": "a script of bench/, which takes minutes; this test looks it up",
}
QUICKLY = ["--repeats", "1", "--warmup", "1"]
"""Added to commands that time a model: how often it runs is not what a page is about."""
NET = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width=16, depth=2):
        layers = [nn.Conv2d(width if i else 3, width, 3, stride=4) for i in range(depth)]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


build = model = Net
"""
TRAIN = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(10):
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
BUDGET = 'params = "100M"\nflops = "1T"\n'
DEEPSPEED = '{"flops_profiler": {"enabled": true, "profile_step": 2}}'


def commands(page):
    """The lines of a page's blocks, without their comments."""
    lines = [line for block in BLOCK.findall(pages.text(page)) for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.fixture(scope="module", name="files")
def _files(tmp_path_factory):
    """Files that pages name without having made them."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("net.py", "model.py"):
        (folder / name).write_text(NET)
    (folder / "train.py").write_text(TRAIN)
    (folder / "my/package").mkdir(parents=True)
    (folder / "my/package/train.py").write_text(TRAIN)
    (folder / "budgets.toml").write_text(BUDGET)
    (folder / "ds_config.json").write_text(DEEPSPEED)
    shutil.copytree(ROOT / "examples", folder / "examples")
    saved = flopsight.profile(flopsight.zoo.build("lenet5", batch=2).model, input_shape=(2, 1, 32, 32), repeats=2)
    for name in ("p", "resnet", "report", "before", "after", "a", "b", "c"):
        saved.save(folder / f"{name}.json")
    ranks = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "flopsight",
        "run",
    ]
    subprocess.run([*ranks, "-o", "job.json", "train.py"], cwd=folder, check=True, capture_output=True)
    (folder / "profiles").mkdir()
    for path in folder.glob("job-rank*.json"):
        path.rename(folder / "profiles" / path.name)
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page, files, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(files, folder)
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "2"}

    for words in commands(page):
        settings = [words.pop(0) for word in list(words) if re.match(r"[A-Z_]+=", word)]
        printed = run(page, words, folder, env | dict(setting.split("=", 1) for setting in settings))
        for example in shown_output.examples(page) if page in shown_output.PAGES else ():
            missing = shown_output.missing(example.shown, printed) if example.words == words else []
            assert not missing, (
                f"{page}: {shlex.join(words)} no longer prints this (make outputs):\n{chr(10).join(missing)}"
            )


def run(page, words, folder, env):
    """What one command prints; what takes minutes or changes the environment is looked up instead."""
    name = Path(words[0]).name
    if name == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), words
    elif name == "python":
        assert (ROOT / words[1]).exists(), words
    elif name != "pip":
        words = [*words, *QUICKLY] if "profile" in words[:2] and not {"--meta", "--repeats"} & set(words) else words
        start = {"flopsight": ["-m", "flopsight"], "torchrun": ["-m", "torch.distributed.run", "--standalone"]}[name]
        done = fork([*start, *words[1:]], folder, env=env)
        assert done.code == 0, f"{page}: {shlex.join(words)}\n{done.out[-2000:]}\n{done.err[-2000:]}"
        return done.out
    return ""


def test_a_command_that_fails_is_noticed(files, tmp_path):
    with pytest.raises(AssertionError, match="show missing.json"):
        run("README.md", ["flopsight", "show", "missing.json"], tmp_path, dict(os.environ))
    with pytest.raises(AssertionError):
        run("README.md", ["make", "nothing-of-this-name"], tmp_path, {})


def test_an_output_that_a_page_no_longer_has_is_noticed():
    printed = "Best: fsdp=8\n  predicted 4.9 s a step\nMemory 53 GB"

    assert shown_output.missing("Best: fsdp=8\nMemory 53 GB", printed) == []
    assert shown_output.missing("Best: fsdp=8\nMemory 54 GB", printed) == ["Memory 54 GB"]
    assert shown_output.refreshed("Best: dp=1\nMemory 54 GB\n", printed) == "Best: fsdp=8\nMemory 53 GB\n"
