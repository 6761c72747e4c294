"""Time on a device, which the host plays: every matrix product launches a kernel of a microsecond."""

import pytest
import torch
from traced_host import fake_device, microseconds, two

from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time.clock import Clock
from flopsight.capture.time.latency import measure_latency, run_traced
from flopsight.results.caveats import UnplacedKernels
from flopsight.results.timings import Stat, Timing


@pytest.fixture(name="device")
def _device(monkeypatch):
    return fake_device(monkeypatch)


def timed(run):
    return measure_latency(run, warmup=0, repeats=2, clock=Clock())


@pytest.mark.usefixtures("device")
def test_in_inference_the_rows_are_the_kernels_and_the_rest_of_the_wall_is_idle():
    found = timed(ModelRun(two(), (torch.ones(3, 4),)))

    assert microseconds(found.forward) == {"": 2, "0": 1, "1": 1, "1.0": 1}
    assert found.timing.busy == pytest.approx(2e-6)
    assert found.timing.idle <= found.timing.forward.median - 1e-6
    assert microseconds(found.streams) | {"": 0} == {"": 0, "0": 1, "1": 1, "1.0": 1}
    assert found.streams[""] > 2e-6  # the host takes longer between two launches than a kernel takes
    assert found.host.keys() == {"", "0", "1", "1.0"}


@pytest.mark.usefixtures("device")
def test_in_training_backward_has_rows_of_its_own_and_the_sums_are_the_busy_times():
    model = two()
    run = ModelRun(model, (torch.ones(3, 4),), train=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))

    found = timed(run)

    assert microseconds(found.forward) == {"": 2, "0": 1, "1": 1, "1.0": 1}
    assert microseconds(found.backward) == {
        "": 3,
        "0": 1,
        "1": 2,
        "1.0": 2,
    }  # the first layer's input needs no gradient
    assert (found.timing.busy, found.timing.backward_busy) == (pytest.approx(2e-6), pytest.approx(3e-6))


def test_a_kernel_that_nobody_launched_is_named(device):
    device.add(1)

    found = timed(ModelRun(two(), (torch.ones(3, 4),)))

    assert microseconds(found.forward)[""] == 1
    (doubt,) = [caveat for caveat in found.caveats if isinstance(caveat, UnplacedKernels)]
    assert (doubt.names, doubt.seconds) == (("gemm",), pytest.approx(1e-6))


@pytest.mark.usefixtures("device")
def test_a_loss_is_outside_the_model_and_not_in_its_idle_time():
    weight = torch.ones(2, 2)
    run = ModelRun(two(), (torch.ones(3, 4),), train=True, loss=lambda output: (output @ weight).sum())

    tracing = run_traced(run)
    timing = tracing.timing(Timing(forward=Stat((1e-3,))), training=True)

    assert microseconds(tracing.forward()) == {"0": 1, "1.0": 1, "<outside>": 1}
    assert timing.busy == pytest.approx(3e-6)
    assert timing.idle == pytest.approx(1e-3 - 2e-6)
