"""What is measured is kept per machine, device and threads; what limits use is said."""

import json
from dataclasses import replace

import pytest
import torch

import flopsight
from flopsight.hardware import known_ceilings as kept
from flopsight.hardware.detect import Found, cpu_name
from flopsight.hardware.device_page import lines
from flopsight.hardware.efficiency import share_reached
from flopsight.hardware.known_ceilings import cache_file, ceilings_of, recall, remember
from flopsight.hardware.peaks import lookup
from flopsight.hardware.sampling import undisturbed
from flopsight.results.ceilings import MEASURED, Ceilings

OWN = Ceilings(
    "NVIDIA H200", {"bfloat16": 800e12, "tf32": 400e12, "float32": 46e12}, 4.3e12, source=MEASURED, made="2026-01-01T00:00:00",
    efficiency={"matmul": ((1e-6, 0.1), (1e-4, 0.9))},
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path))
    return tmp_path


def h200(**more):
    return Found("cuda:0", "NVIDIA H200", match=lookup("NVIDIA H200"), **more)


def test_what_was_measured_is_read_back_for_the_same_device_alone(folder):
    path = remember(OWN)

    assert path == folder / "ceilings.json"
    assert recall("NVIDIA H200") == OWN
    assert recall("NVIDIA H100 PCIe") is None


def test_a_cpus_figures_hold_for_a_number_of_threads():
    remember(replace(OWN, name=cpu_name()), threads=2)

    assert recall(cpu_name(), threads=2) is not None
    assert recall(cpu_name(), threads=4) is None


def test_a_second_device_does_not_overwrite_the_first():
    remember(OWN)
    remember(replace(OWN, name="Other"))

    assert recall("NVIDIA H200") == OWN
    assert len(json.loads(cache_file().read_text())) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"x": 1}', "not json"])
def test_a_damaged_file_counts_as_none(folder, text):
    (folder / "ceilings.json").write_text(text)

    assert recall("NVIDIA H200") is None


def test_limits_use_the_measured_figures_and_the_datasheets_for_what_was_not_measured():
    sheet = ceilings_of(h200())
    assert sheet.flops["bfloat16"] == 989.4e12
    assert not sheet.measured

    remember(OWN)
    found = ceilings_of(h200())
    assert found.flops["bfloat16"] == 800e12
    assert found.flops["float8_e4m3fn"] == 1978.9e12
    assert found.measured
    assert found.memory == sheet.memory
    assert found.link == sheet.link


def test_tf32_is_used_by_whom_torch_lets():
    remember(OWN)

    assert ceilings_of(h200()).flops["float32"] == 46e12
    assert ceilings_of(h200(tf32=frozenset({"cudnn"}))).flops["float32/cudnn"] == 400e12
    assert ceilings_of(h200(tf32=frozenset({"cudnn", "matmul"}))).flops["float32"] == 400e12


def test_what_the_user_states_goes_before_both():
    remember(OWN)

    assert ceilings_of(h200(stated={"bfloat16": 1e15})).flops["bfloat16"] == 1e15


def test_a_profile_carries_the_ceilings_of_its_machine_and_has_none_before():
    model, rows = torch.nn.Linear(8, 8), torch.ones(4, 8)
    assert flopsight.count(model, (rows,)).limit() is None

    remember(Ceilings(cpu_name(), {"float32": 1e9}, 1e9, source=MEASURED), torch.get_num_threads())
    profile = flopsight.count(model, (rows,))
    # 4 x 8 x 8 MACs are 512 FLOPs; bias, input, weight and output are 8 + 32 + 64 + 32 numbers of 4 bytes
    assert profile.limit() == pytest.approx(max(512, 4 * 136) / 1e9)
    assert profile.ceilings.measured


def test_the_report_shows_what_was_measured_beside_the_datasheet():
    assert "flopsight device --measure" in "\n".join(lines(h200()))

    remember(OWN)
    page = "\n".join(lines(h200()))
    assert "bfloat16       800 TFLOP/s       80.9% of the datasheet's" in page
    assert "busy" not in page
    remember(replace(OWN, busy=0.3))
    assert "The machine was busy: samples lay up to 30% apart" in "\n".join(lines(h200()))


def test_samples_in_which_others_had_the_cores_are_dropped():
    # two cores: a quiet sample has twice its wall time on them
    assert undisturbed([(1.0, 2.0), (1.1, 2.1), (2.0, 2.0)]) == [1.0, 1.1]
    assert undisturbed([(1.0, 0.0)]) == [1.0]


def test_a_share_lies_between_the_measured_ones_by_the_logarithm():
    points = ((1e-6, 0.2), (1e-4, 0.8))

    assert share_reached(points, 1e-7) == 0.2
    assert share_reached(points, 1e-5) == pytest.approx(0.5)
    assert share_reached(points, 1.0) == 0.8


def test_a_convolution_that_is_faster_than_the_products_is_the_ceiling(monkeypatch):
    """Times are written here: a product of 64^3 takes 1 s, the convolution half a second."""
    from flopsight.hardware import measured, sampling

    class Written(sampling.Sampler):
        times = iter((1.0, 0.5))

        def least(self, work, budget):
            work()
            return next(self.times)

    monkeypatch.setattr(measured, "SIDES", {"cpu": (64,)})
    monkeypatch.setattr(measured, "IMAGES", {"cpu": ((1, 16, 32),)})
    sampler = Written(torch, torch.device("cpu"), flush=1 << 10)
    sampler.threads = 1

    # 1,024 places of 16 channels, each of 16 x 9 products: 4.7 MFLOP in half a second; the product has 0.5 MFLOP
    probes = measured.Probes(torch, sampler, measured.THOROUGH, lambda _: None)
    assert probes._rate("float32") == 2 * 1024 * 16 * 16 * 9 / 0.5


def test_measuring_a_cpu_gives_rates_for_its_dtypes_and_leaves_the_random_state_alone(monkeypatch):
    from flopsight.hardware import measured
    from flopsight.hardware.detect import detect

    monkeypatch.setattr(measured, "SIDES", {"cpu": (32, 64)})
    monkeypatch.setattr(measured, "IMAGES", {"cpu": ((1, 8, 8),)})
    monkeypatch.setattr(measured, "efficiencies", lambda *_: {"matmul": ((1.0, 1.0),)})
    pace = measured.Pace(
        whole=60.0, warm_up=0.0, products=0.02, memory=0.02, copied=1 << 16, flush=1 << 16, calls=0.1, kinds=0.1
    )
    torch.manual_seed(0)
    before = torch.get_rng_state()

    found = measured.measure(detect("cpu"), pace=pace)

    assert set(found.flops) == {"float32", "bfloat16", "float16", "float64"}
    assert not found.short
    assert min(found.flops.values()) > 0
    assert found.bandwidth > 0
    assert min(found.host.values()) >= 0
    assert found.host["op"] > 0
    assert found.measured
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("seconds", "faster"), [(0.001, True), (10.0, False)])
def test_the_bandwidth_of_a_cache_is_that_of_copies_that_stay_in_it_if_memory_is_slower(seconds, faster):
    from flopsight.hardware import measured, sampling

    class Written(sampling.Sampler):
        def least(self, work, budget, *, warm=False):
            assert warm, "what is in the cache has to stay there"
            work()
            return seconds

    sampler = Written(torch, torch.device("cpu"), flush=1 << 10)
    sampler.threads = 1
    probes = measured.Probes(torch, sampler, measured.THOROUGH, lambda _: None)

    # a cache of 8 MiB: ten copies of 1 MiB, read and written
    rate = 2 * 10 * 2**20 / seconds
    assert probes._cache_bandwidth(8 << 20, memory=1e9) == (rate if faster else None)
    assert probes._cache_bandwidth(None, memory=1e9) is None
