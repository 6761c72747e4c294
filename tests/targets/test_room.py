"""A model that does not fit is sized on meta and refused; one that fits is built once."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from flopsight.errors import InputError
from flopsight.targets import room
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target
from flopsight.targets.room import build_within_memory

GIGABYTE = 1_000_000_000
OWN_PEAK = """
import re, resource, sys
def own_peak():
    if sys.platform == "linux":
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
"""Bytes the process has held at most; on Linux `ru_maxrss` would also cover the process that started it."""


def test_a_small_model_is_built_once():
    built = []

    def build():
        built.append(nn.Linear(8, 8))
        return built[-1]

    assert build_within_memory("net.py:Net", build) is built[0]
    assert len(built) == 1


def test_a_model_larger_than_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device="cpu": 2 * GIGABYTE)

    with pytest.raises(InputError) as problem:
        build_within_memory("net.py:Net", lambda: nn.Linear(1_000_000, 1000, bias=False))

    assert str(problem.value) == (
        "net.py:Net has 1.00 G parameters, 4.00 GB; this machine has 2.00 GB free. "
        "Add --meta to count it without memory, or make it smaller with changes after a second colon."
    )


def test_gradients_and_optimizer_state_need_room_too(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device="cpu": 10 * GIGABYTE)
    monkeypatch.setattr(room, "SMALL", 1)

    def build():
        return nn.Linear(1_000_000, 1000, bias=False) if torch.empty(0).is_meta else nn.Linear(1, 1)

    build_within_memory("n", build)
    build_within_memory("n", build, train=True)
    with pytest.raises(
        InputError, match="4.00 GB, 16.0 GB with gradients and optimizer state; this machine has 10.0 GB"
    ):
        build_within_memory("n", build, train=True, optimizer=True)


def test_a_model_that_cannot_be_built_on_meta_is_built_all_the_same(monkeypatch):
    monkeypatch.setattr(room, "SMALL", 1)

    def build():
        if torch.empty(1).is_meta:
            raise RuntimeError("no meta here")
        return nn.Linear(1, 1)

    assert not build_within_memory("n", build).weight.is_meta


def test_what_the_model_prints_is_printed_once(monkeypatch, capsys):
    monkeypatch.setattr(room, "SMALL", 1)

    def build():
        model = nn.Linear(2, 2)
        print("built")
        return model

    build_within_memory("n", build)

    assert capsys.readouterr().out == "built\n"


@pytest.fixture
def file_with_a_model(tmp_path, monkeypatch):
    """A file that makes a model when it is imported: 4 million parameters, 16 MB."""
    (tmp_path / "made_at_import.py").write_text("from torch import nn\nmodel = nn.Linear(2000, 2000, bias=False)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(room, "SMALL", 1)
    yield "made_at_import.py"
    sys.modules.pop("made_at_import", None)


def test_a_model_that_is_made_when_its_file_is_imported_is_refused_too(file_with_a_model, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device="cpu": 1_000_000)

    with pytest.raises(InputError, match="made_at_import.py has 4.00 M parameters, 16.0 MB; this machine has 1.00 MB"):
        load_target(file_with_a_model, parse_inputs(["1x2000"]))


def test_a_model_that_is_made_when_its_file_is_imported_takes_no_memory_on_meta(file_with_a_model):
    assert load_target(file_with_a_model, parse_inputs(["1x2000"]), meta=True).model.weight.is_meta


def test_a_model_that_is_made_when_its_file_is_imported_is_built_where_it_fits(file_with_a_model):
    assert not load_target(file_with_a_model, parse_inputs(["1x2000"])).model.weight.is_meta


def test_a_refused_model_of_70_billion_parameters_takes_less_than_a_gigabyte(tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def model():\n"
        "    return nn.Sequential(*[nn.Linear(32768, 32768, bias=False) for _ in range(66)])\n"
    )
    script = OWN_PEAK + (
        "from flopsight import cli\nfrom flopsight.targets import room\n"
        "room.free_memory = lambda device='cpu': 24 * 10**9\n"
        "code = cli.main(['profile', 'net.py:model', '-i', '1x32768'])\n"
        "print(code, own_peak() < 10**9)"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout.split() == ["2", "True"], done.stderr
    assert f"{66 * 32768**2 / 1e9:.1f} G parameters" in done.stderr
