"""AProfiler: activation bytes, a window of steps, and the share of the device's peak."""

import pytest
import torch
from compat.printed import aggregate, number, summary
from compat.profiling import FLOPS, X, profiled
from toys import HIDDEN, LINEAR_FLOPS, MACS, PARAMS, ROWS, Net

from flopsight import AProfiler
from flopsight.errors import ConfigError, InputError


def test_the_methods_of_a_profiler_tell_the_same_as_its_text(capsys):
    prof = profiled(Net(), AProfiler)

    prof.print_model_profile(profile_step=1, module_depth=-1, top_modules=1, detailed=False, output_file=None)
    text = capsys.readouterr().out
    said = summary(text)

    statistics = 2 * HIDDEN
    kept = 4 * (3 * ROWS * HIDDEN + statistics)  # norm's input and statistics, the mask, what went into the last linear
    assert "AProfiler Summary at step 1" in text
    assert (prof.get_total_flops(), prof.get_total_macs(), prof.get_total_params()) == (FLOPS, MACS, PARAMS)
    assert prof.get_total_activation() == kept
    assert number(prof.get_total_activation(as_string=True)) == kept
    assert said["activation bytes"] == kept
    assert said["fwd macs per GPU"] == MACS
    assert said["fwd flops per GPU"] == pytest.approx(FLOPS, rel=0.005)
    assert said["fwd latency"] == pytest.approx(prof.get_total_duration(), rel=0.01)
    depths = aggregate(text)
    assert depths[0]["activation"] == {"Net": kept}
    assert depths[1]["macs"] == {"Linear": MACS}
    assert set(depths[1]) == {"params", "flops", "macs", "fwd latency", "activation"}


def test_a_profiler_prints_its_own_aggregate(capsys):
    profiled(Net(), AProfiler).print_model_aggregated_profile(top_modules=2)

    assert aggregate(capsys.readouterr().out)[1]["flops"]["Linear"] == pytest.approx(LINEAR_FLOPS, rel=0.005)


def test_a_window_of_steps_is_summed():
    start_step, end_step = 2, 6
    model = Net()
    prof = AProfiler(model)
    for step in range(10):
        if step == start_step:
            prof.start_profile()
        model(X).sum().backward()
        if step == end_step:
            prof.stop_profile()

    assert prof.get_total_flops() == 5 * FLOPS
    assert prof.get_total_params() == PARAMS


@pytest.mark.parametrize("dtype", ["bf16", torch.bfloat16, "bfloat16"])
def test_utilization_is_the_flops_over_time_and_the_dense_peak(monkeypatch, dtype):
    monkeypatch.setenv("FLOPSIGHT_PEAK_FLOPS", "bf16=1e12,fp32=5e11")
    prof = profiled(Net(), AProfiler, times=3)

    assert prof.compute_gpu_utilization(total_steps_time=2.0, dtype=dtype) == pytest.approx(3 * FLOPS / 2.0 / 1e12)
    assert prof.compute_gpu_utilization(2.0) == pytest.approx(3 * FLOPS / 2.0 / 5e11)  # what the model's weights are in


def test_utilization_of_an_unknown_device_is_not_invented():
    prof = profiled(Net(), AProfiler)

    with pytest.warns(UserWarning, match="no dense bfloat16 peak of this device .* FLOPSIGHT_PEAK_FLOPS"):
        assert prof.compute_gpu_utilization(1.0, "bf16") is None


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_utilization_needs_a_time(seconds):
    with pytest.raises(InputError, match="total_steps_time"):
        profiled(Net(), AProfiler).compute_gpu_utilization(seconds, "bf16")


def test_utilization_needs_a_dtype_that_there_is():
    with pytest.raises(ConfigError, match="bf61"):
        profiled(Net(), AProfiler).compute_gpu_utilization(1.0, "bf61")
