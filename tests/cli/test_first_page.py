"""`profile` and `demo` on a machine of which nothing is known: they measure it shortly, say so and keep it."""

import json

import pytest
import torch

import flopsight
from flopsight import cli
from flopsight.cli import short_measurement as first
from flopsight.hardware import measured
from flopsight.hardware.detect import cpu_name
from flopsight.hardware.known_ceilings import recall, remember
from flopsight.results.ceilings import MEASURED, Ceilings

QUICK = ("profile", "zoo:lenet5", "-i", "4x1x32x32", "--warmup", "0", "--repeats", "1", "--depth", "0")
FAST = measured.Pace(whole=0.3, warm_up=0.0, products=0.01, memory=0.02, copied=1 << 20, flush=1 << 10)


@pytest.fixture(name="folder")
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOPSIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FLOPSIGHT_NO_MEASURE")
    monkeypatch.setattr(measured, "SHORT", FAST)
    monkeypatch.setattr(first, "DOUBTFUL", 1e9)  # the machine of the tests may be busy
    return tmp_path


@pytest.fixture(name="flops")
def _flops(folder, capsys):
    def run(*argv):
        code = cli.main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def line(page, label):
    return next(text for text in page.splitlines() if text.startswith(label))


def kept(folder):
    return folder / "cache" / "ceilings.json"


def test_the_first_page_has_a_limit_and_what_binds_and_says_what_was_measured(flops, folder):
    code, out, err = flops(*QUICK, "-o", "p.json")

    assert code == 0
    assert line(out, "limit").endswith(f"(measured ceilings of {cpu_name()})")
    assert "not known" not in line(out, "bound by")
    said = [text for text in err.splitlines() if text.startswith("Measured")]
    assert len(said) == 1
    assert f"Kept in {kept(folder)}; --no-measure leaves this out." in said[0]
    assert flopsight.load("p.json").limit() > 0


def test_the_second_page_takes_what_is_kept(flops, folder):
    flops(*QUICK)
    before = kept(folder).read_text()
    _, out, err = flops(*QUICK)

    assert "Measured" not in err
    assert kept(folder).read_text() == before
    assert "not known" not in line(out, "limit")


def test_the_demo_measures_too(flops, folder):
    code, out, err = flops("demo")

    assert code == 0
    assert "Measured" in err
    assert not [text for text in out.splitlines() if "not known" in text]
    assert line(out, "first") != "first     nothing found to change"


@pytest.mark.parametrize("more", [("--no-measure",), ("--meta",), ("--on", "h100-sxm")])
def test_it_can_be_left_out_and_is_where_it_would_say_nothing(flops, folder, more):
    words = [word for word in QUICK if more != ("--meta",) or word not in ("--warmup", "0", "--repeats", "1")]
    code, _, err = flops("profile", "zoo:lenet5", *more) if more == ("--meta",) else flops(*words, *more)

    assert code == 0
    assert "Measured" not in err
    assert not kept(folder).exists()


def test_several_ranks_measure_nothing(flops, folder, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = flops(*QUICK)

    assert code == 0
    assert "Measured" not in err
    assert not kept(folder).exists()


def test_python_measures_nothing(folder):
    profile = flopsight.profile(torch.nn.Linear(8, 8), (torch.ones(4, 8),), warmup=0, repeats=1)

    assert profile.ceilings is None
    assert not kept(folder).exists()


def test_a_cache_that_cannot_be_written_is_said_and_skipped(flops, folder, monkeypatch):
    (folder / "home").write_text("a file")
    for name in ("FLOPSIGHT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(folder / "home"))
    code, out, err = flops(*QUICK)

    assert code == 0
    assert "not known" not in line(out, "limit")
    said = [text for text in err.splitlines() if text.startswith("Measured")]
    assert len(said) == 1
    assert "Not kept: " in said[0]
    assert "ceilings.json cannot be written: Not a directory." in said[0]


def test_no_home_at_all_is_said_and_skipped(flops, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("FLOPSIGHT_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pathlib.Path.home", homeless)
    code, _, err = flops(*QUICK)

    assert code == 0
    assert "Not kept: What was measured cannot be kept: Could not determine home directory." in err


DAMAGED = {
    "no JSON": lambda page: "{",
    "a list": lambda page: "[]",
    "no rates": lambda page: json.dumps({key: one | {"flops": {}} for key, one in page.items()}),
    "null for rates": lambda page: json.dumps({key: one | {"flops": None} for key, one in page.items()}),
    "a rate of 0": lambda page: json.dumps({key: one | {"flops": {"float32": 0}} for key, one in page.items()}),
    "a rate of NaN": lambda page: json.dumps({key: one | {"flops": {"float32": float("nan")}} for key, one in page.items()}),
    "a text for a rate": lambda page: json.dumps({key: one | {"bandwidth": "fast"} for key, one in page.items()}),
    "no bandwidth": lambda page: json.dumps({key: one | {"bandwidth": None} for key, one in page.items()}),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_cache_is_ignored_and_rewritten(flops, folder, damage):
    flops(*QUICK)
    kept(folder).write_text(DAMAGED[damage](json.loads(kept(folder).read_text())))
    code, out, err = flops(*QUICK)

    assert code == 0
    assert "Measured" in err
    assert "not known" not in line(out, "limit")
    assert recall(cpu_name(), torch.get_num_threads()) is not None


def test_a_stated_peak_goes_before_the_measured_one(flops, folder, monkeypatch):
    monkeypatch.setenv("FLOPSIGHT_PEAK_FLOPS", "fp32=1e15")
    flops(*QUICK, "-o", "p.json")

    ceilings = flopsight.load("p.json").ceilings
    assert ceilings.flops["float32"] == 1e15
    assert ceilings.bandwidth < 1e14


def written(busy):
    return Ceilings(cpu_name(), {"float32": 1e11 / (1 + busy)}, 1e10, source=MEASURED, made="2026-01-01", busy=busy)


def test_figures_of_a_busy_machine_are_measured_again_and_the_quieter_stay(flops, monkeypatch):
    monkeypatch.setattr(first, "DOUBTFUL", 0.25)
    next_ones = iter((0.5, 0.9, 0.1))
    monkeypatch.setattr(measured, "measure", lambda *_, **__: written(next(next_ones)))

    assert "The machine was busy, so the next command measures again." in flops(*QUICK)[2]
    assert "the machine is still busy, so the earlier figures stay" in flops(*QUICK)[2]
    assert recall(cpu_name(), torch.get_num_threads()) == written(0.5)
    assert "was busy" not in flops(*QUICK)[2]
    assert recall(cpu_name(), torch.get_num_threads()) == written(0.1)
    assert "Measured" not in flops(*QUICK)[2]


def test_a_device_without_room_for_a_measurement_is_said_and_skipped(flops, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("out of memory\nTried to allocate 1 GiB")

    monkeypatch.setattr(measured, "measure", full)
    code, out, err = flops(*QUICK)

    assert code == 0
    assert "could not be measured: out of memory" in err
    assert "not known" in line(out, "limit")


@pytest.mark.parametrize("change", ["threads", "torch", "instructions", "processors"])
def test_another_machine_is_measured_anew(folder, monkeypatch, change):
    threads = torch.get_num_threads()
    remember(written(0.0), threads)
    assert recall(cpu_name(), threads) is not None

    if change == "torch":
        monkeypatch.setattr(torch, "__version__", "9.9")
    elif change == "instructions":
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    elif change == "processors":
        monkeypatch.setattr("flopsight.hardware.known_ceilings._processors", lambda: 999)
    assert recall(cpu_name(), threads + (change == "threads")) is None
