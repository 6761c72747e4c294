"""Detection against a stand-in for torch's device properties, stated peaks, and the report."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from flopsight.errors import ConfigError, InputError
from flopsight.hardware.detect import CUDNN, detect, half_accumulation, tf32_products, tf32_users
from flopsight.hardware.device_page import lines
from flopsight.hardware.peaks import VARIABLE, Ambiguous, stated_peaks

GIB = 2**30


@pytest.fixture(autouse=True)
def _nothing_stated(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def card(monkeypatch):
    """Let torch report a GPU with these properties."""

    def pretend(name, units, memory):
        facts = SimpleNamespace(name=name, multi_processor_count=units, total_memory=memory)
        backend = SimpleNamespace(get_device_properties=lambda index: facts, current_device=lambda: 0)
        monkeypatch.setattr(torch, "get_device_module", lambda kind: backend)
        monkeypatch.setattr(torch.backends.cuda, "matmul", settings := SimpleNamespace())
        settings.fp32_precision, settings.allow_fp16_accumulation = "ieee", False
        monkeypatch.setattr(torch.backends.cudnn, "conv", SimpleNamespace(fp32_precision="ieee"), raising=False)
        monkeypatch.setattr(torch.version, "hip", None)
        return settings

    return pretend


def test_a_gpu_is_found_by_what_torch_reports(card):
    card("NVIDIA H100", 114, 79 * GIB)

    found = detect("cuda:0")

    assert (found.device, found.name, found.compute_units, found.known.id) == (
        "cuda:0",
        "NVIDIA H100",
        114,
        "h100-pcie",
    )
    assert found.peak_flops()["bfloat16"] == 756e12


def test_a_mig_slice_has_no_peaks(card):
    card("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, 5 * GIB)

    found = detect("cuda:0")

    assert found.match is None
    assert found.peak_flops() == {}
    assert "its peaks are not known" in "\n".join(lines(found))


def test_an_ambiguous_name_is_reported_with_its_candidates(card):
    card("NVIDIA H100", None, None)

    found = detect("cuda:0")

    assert isinstance(found.match, Ambiguous)
    assert found.peak_flops() == {}
    assert "H100 NVL 94GB" in "\n".join(lines(found))


def test_float32_peaks_follow_torchs_tf32_settings(card):
    settings = card("NVIDIA A100-SXM4-40GB", 108, 39 * GIB)
    assert detect("cuda:0").peak_flops()["float32"] == 19.5e12

    torch.backends.cudnn.conv.fp32_precision = "tf32"
    rates = detect("cuda:0").peak_flops()
    assert (rates["float32"], rates[CUDNN]) == (19.5e12, 156e12)

    settings.fp32_precision = "tf32"
    rates = detect("cuda:0").peak_flops()
    assert rates["float32"] == 156e12
    assert CUDNN not in rates


def test_the_settings_are_read_from_torch_itself():
    from flopsight.hardware.detect import _settings

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert "matmul" in _settings(torch, torch.device("cuda"))[0]
        torch.set_float32_matmul_precision("highest")
        assert "matmul" not in _settings(torch, torch.device("cuda"))[0]
    finally:
        torch.set_float32_matmul_precision(before)


def test_older_torch_has_flags_instead_of_named_precisions():
    older = SimpleNamespace(
        backends=SimpleNamespace(
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)), cudnn=SimpleNamespace(allow_tf32=True)
        ),
        version=SimpleNamespace(hip=None),
    )
    assert (tf32_users(older), half_accumulation(older)) == ({"cudnn"}, False)

    with tf32_products(older, torch.device("cuda"), allowed=True):
        assert tf32_users(older) == {"matmul", "cudnn"}
    assert tf32_users(older) == {"cudnn"}


def test_a_cpu_has_a_name_and_no_peak_unless_one_is_stated():
    found = detect("cpu")
    assert found.name
    assert found.peak_flops() == {}

    stated = detect("cpu", peak_flops={"fp32": 2e12})
    assert stated.peak_flops() == {"float32": 2e12, "complex64": 2e12}


def test_a_stated_peak_goes_before_the_tables(card, monkeypatch):
    card("NVIDIA H200", 132, int(139.8 * GIB))
    monkeypatch.setenv(VARIABLE, "bf16=800e12")

    rates = detect("cuda:0").peak_flops()

    assert (rates["bfloat16"], rates["float16"]) == (800e12, 989.4e12)


def test_the_argument_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, "bf16=800e12")

    assert detect("cpu", peak_flops={"bf16": 1e12}).peak("bfloat16") == 1e12


def test_a_stated_tf32_peak_holds_for_float32_once_tf32_is_allowed(card):
    settings = card("NVIDIA Unheard Of", 1, GIB)
    assert detect("cuda:0", peak_flops="tf32=3e12").peak("float32") is None

    settings.fp32_precision = "tf32"
    assert detect("cuda:0", peak_flops="tf32=3e12").peak("float32") == 3e12


def test_several_peaks_are_stated_in_one_variable():
    assert stated_peaks("bf16=989e12, fp64=67e12") == {"bfloat16": 989e12, "float64": 67e12, "complex128": 67e12}
    assert set(stated_peaks("fp8=1e15")) == {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"}


@pytest.mark.parametrize(
    "text", ["989e12", "bf16=", "bf16=fast", "bf16=989", "bf16=-1e12", "bf16=nan", "bf16=inf", "bf17=1e12"]
)
def test_a_statement_that_makes_no_sense_is_refused_with_the_right_form(text, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)

    with pytest.raises(ConfigError, match=r"bf16"):
        detect("cpu")


def test_a_device_that_torch_does_not_know_is_named_in_the_error():
    with pytest.raises(InputError, match="'warp9'"):
        detect("warp9")


def test_a_device_that_this_torch_cannot_use_is_named_in_the_error():
    with pytest.raises(InputError, match="cannot use cuda:99"):
        detect("cuda:99")


def test_a_machine_without_an_apple_gpu_says_so(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    with pytest.raises(InputError, match=r"cannot use mps: there is no Apple GPU here.*`flopsight device cpu`"):
        detect("mps")


def test_the_report_shows_peaks_with_grades_and_full_citations(card):
    card("NVIDIA L4", 58, 22 * GIB)

    page = "\n".join(lines(detect("cuda:0")))

    assert "121 TFLOP/s" in page
    assert "242.5 TOP/s" in page
    assert "github:Lightning-AI/pytorch-lightning" in page
    assert VARIABLE in page


def test_the_report_says_what_the_user_stated():
    page = "\n".join(lines(detect("cpu", peak_flops={"bf16": 2e12})))

    assert "stated by you" in page
    assert "2 TFLOP/s" in page


def test_the_table_is_read_without_torch():
    code = "import sys; from flopsight.hardware import device_page, peaks; peaks.devices(); assert 'torch' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
