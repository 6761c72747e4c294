"""Limits, time by op and what binds on a GPU; their arithmetic is tested in tests/analysis and tests/hardware."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.hardware.detect import detect
from flopsight.hardware.known_ceilings import remember
from flopsight.hardware.measured import measure

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; CPU twins are in tests/analysis and tests/capture/time"
)

BF16 = torch.bfloat16
ABOVE = 1.05


@pytest.fixture(scope="module", autouse=True)
def ceilings(tmp_path_factory):
    """What this machine reaches, measured once and kept in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOPSIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        own = measure(detect("cuda"))
        remember(own, torch.get_num_threads())
        yield own


def profiled(model, *inputs, **more):
    with torch.no_grad():
        return flopsight.profile(model.to("cuda", BF16).eval(), inputs, repeats=5, **more)


def rand(*shape):
    return torch.randn(*shape, device="cuda", dtype=BF16)


def test_measured_ceilings_are_below_the_nameplate_and_near_it(ceilings):
    sheet = detect("cuda").known
    if sheet is None:
        pytest.skip("this GPU is not in the table")

    assert 0.5 * sheet.bandwidth.value < ceilings.bandwidth <= sheet.bandwidth.value * ABOVE
    assert 0.4 * sheet.peaks["bf16"].value < ceilings.flops["bfloat16"] <= sheet.peaks["bf16"].value * 1.15


def test_a_large_product_is_bound_by_compute_and_no_faster_than_its_limit():
    profile = profiled(nn.Linear(8192, 8192, bias=False), rand(8192, 8192))

    assert profile.bound() == "compute"
    assert profile.ceilings.measured
    assert 0.7 * profile.root.latency < profile.limit() <= ABOVE * profile.root.latency


def test_a_large_sum_is_bound_by_memory_and_no_faster_than_its_limit():
    class Add(nn.Module):
        def forward(self, x, y):
            return x + y

    profile = profiled(Add(), rand(1 << 28), rand(1 << 28))

    assert profile.bound() == "memory"
    assert 0.7 * profile.root.latency < profile.limit() <= ABOVE * profile.root.latency


def test_a_deep_and_narrow_model_is_bound_by_launches():
    model = nn.Sequential(*(layer for _ in range(100) for layer in (nn.Linear(64, 64), nn.ReLU())))
    profile = profiled(model, rand(8, 64))

    assert profile.bound() == "launch"
    assert "launch" in [finding.name for finding in profile.findings]


def test_the_kernels_of_a_module_are_those_of_its_ops():
    model = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512), nn.Softmax(-1))
    profile = profiled(model, rand(4096, 512))

    for node in profile.root.children:
        assert sum(row.seconds or 0 for row in node.ops) == pytest.approx(node.latency, rel=1e-3), node.kind


def test_torchs_fused_attention_path_counts_a_fused_kernel_and_its_time():
    layer = nn.MultiheadAttention(512, 8, batch_first=True)

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = layer

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    profile = profiled(Attends(), rand(16, 512, 512))
    ops = {row.op: row for row in profile["attention"].ops}

    assert not [op for op in ops if "softmax" in op]
    assert any("attention" in op for op in ops)
    # four square products on 16 x 512 rows, and two of attention
    assert profile.macs == 4 * 16 * 512 * 512 * 512 + 2 * 16 * 512 * 512 * 512
    own = profile["attention"]
    assert own.limit() <= ABOVE * own.latency
    assert sum(row.seconds or 0 for row in own.ops) >= 0.9 * own.latency


def test_a_device_that_is_not_here_has_limits_of_its_own():
    profile = profiled(nn.Linear(4096, 4096, bias=False), rand(4096, 4096))

    assert profile.limit("v100-sxm2") is None  # no bfloat16
    assert profile.limit("a100-sxm4-80") == pytest.approx(2 * 4096**3 / 312e12)


def test_a_gpu_that_the_table_does_not_have_is_measured_shortly(tmp_path, monkeypatch, capsys):
    from flopsight import cli, load
    from flopsight.hardware import peaks

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOPSIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FLOPSIGHT_NO_MEASURE", raising=False)
    monkeypatch.setattr(peaks, "lookup", lambda *_, **__: None)
    words = ["profile", "zoo:lenet5", "--device", "cuda", "--repeats", "2", "--depth", "0", "-o", "p.json"]

    assert cli.main(words) == 0
    assert capsys.readouterr().err.count("Measured ") == 1
    found = load("p.json")
    assert found.ceilings.short
    assert {"bfloat16", "float32"} <= set(found.ceilings.flops)
    assert 0 < found.limit() < found.latency
