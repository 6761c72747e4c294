"""A dry run for a GPU, on a machine that has none: every axis, and the casts of a GPU's autocast."""

import pytest
import torch
from distributed.dry_ranks import BATCH, LENGTH
from releases import with_dry_runs

import flopsight
from flopsight import cli

pytestmark = with_dry_runs

ROWS, WIDTH = 4, 8
HALF, SINGLE = 2, 4
GIVEN, WEIGHT = ROWS * WIDTH, WIDTH * WIDTH
NET = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return torch.softmax(self.linear(x), -1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def counted(tmp_path, *more):
    (tmp_path / "net.py").write_text(NET)
    saved = tmp_path / "p.json"
    command = ["profile", f"{tmp_path / 'net.py'}:Net", "--meta", "-i", f"{ROWS}x{WIDTH}", "-o", str(saved)]
    assert cli.main([*command, "--mesh", "dp=2", "--precision", "bf16", *more]) == 0
    return flopsight.load(saved)


def test_a_gpu_multiplies_in_half_and_adds_up_a_softmax_in_single_precision(tmp_path):
    profile = counted(tmp_path, "--on", "h100-sxm")

    casts = (GIVEN + WEIGHT) * (SINGLE + HALF)
    products = (GIVEN + WEIGHT + GIVEN) * HALF
    softmax = GIVEN * (HALF + SINGLE) + GIVEN * (SINGLE + SINGLE)  # torch casts before the kernel unless it is float16
    assert profile.forward.bytes == 2 * (casts + products + softmax)


@pytest.mark.parametrize("checkpoint", ["none", "full"])
def test_a_block_that_runs_again_casts_again(tmp_path, checkpoint):
    profile = counted(tmp_path, "--on", "h100-sxm", "--train", "--checkpoint", checkpoint)

    own = [profile[path] for path in profile.nodes if profile[path].kind == "Linear"]
    again = GIVEN * WIDTH if checkpoint == "full" else 0
    dtypes = {row.dtype for node in own for row in node.ops if row.cost.macs}
    assert dtypes == {"bfloat16"}
    assert [node.recompute.macs for node in own] == [again, again]


def test_no_autocast_is_left_on(tmp_path):
    counted(tmp_path, "--on", "h100-sxm")

    assert not torch.is_autocast_enabled("cuda")
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("mesh", ["pp=2", "pp=2,fsdp=2", "pp=2,dp=2", "tp=2", "cp=2", "fsdp=2,tp=2", "dp=2,fsdp=2"])
def test_a_mesh_for_a_gpu_exchanges_and_multiplies_what_one_over_gloo_does(tmp_path, mesh):
    command = ["profile", "distributed.dry_ranks:Language", "--meta", "--train", "-i", f"{BATCH}x{LENGTH}:int64"]

    def counted(name, *more):
        assert cli.main([*command, "--mesh", mesh, "-o", str(tmp_path / name), *more]) == 0
        return flopsight.load(tmp_path / name)

    here, there = counted("cpu.json"), counted("gpu.json", "--on", "h100-sxm")

    for figure in ("params", "macs", "comm", "world"):
        assert getattr(here, figure) == getattr(there, figure)
    assert here.backward.macs == there.backward.macs
