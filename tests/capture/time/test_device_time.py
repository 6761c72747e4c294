"""Time on a device without one: a real trace of the host, in which every matrix product launches a kernel of a microsecond."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn

from flopsight.capture.model.run import Run
from flopsight.capture.time import device_trace, kineto
from flopsight.capture.time.clock import Clock
from flopsight.capture.time.kernels import TraceEvent
from flopsight.capture.time.latency import measure_latency, run_traced
from flopsight.caveats import UnplacedKernels
from flopsight.loop.window import StepWindow
from flopsight.tree import Stat, Timing

KERNEL = 1000
"""Nanoseconds; a microsecond later on the device than on the host."""
PRODUCTS = ("aten::addmm", "aten::mm")


def launched(event, number, stranger):
    call = TraceEvent("cudaLaunchKernel", event.begin, event.end, device=False, lane=event.lane, correlation=number)
    begin = event.begin + KERNEL
    kernel = TraceEvent("gemm", begin, begin + KERNEL, device=True, lane=7, correlation=0 if stranger else number)
    return call, kernel


@pytest.fixture(name="device")
def _device(monkeypatch):
    """A device that does matrix products; those listed by number are launched by nobody knows whom."""
    strangers = set()

    @contextmanager
    def trace(_device):
        with kineto.device_trace(torch.device("cpu")) as found:
            yield found
        products = [event for event in found.events if event.name in PRODUCTS]
        for i, event in enumerate(products):
            found.events += launched(event, 10**9 + i, i in strangers)

    monkeypatch.setattr(device_trace, "device_trace", trace)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *_: None)
    monkeypatch.setattr(Run, "device", torch.device("xpu"))
    return strangers


def two():
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2)))


def microseconds(rows):
    return {path: round(seconds * 1e6, 3) for path, seconds in rows.items()}


def timed(run):
    return measure_latency(run, warmup=0, repeats=2, clock=Clock())


@pytest.mark.usefixtures("device")
def test_in_inference_the_rows_are_the_kernels_and_the_rest_of_the_wall_is_idle():
    found = timed(Run(two(), (torch.ones(3, 4),)))

    assert microseconds(found.forward) == {"": 2, "0": 1, "1": 1, "1.0": 1}
    assert found.timing.busy == pytest.approx(2e-6)
    assert found.timing.idle <= found.timing.forward.median - 1e-6
    assert microseconds(found.streams) | {"": 0} == {"": 0, "0": 1, "1": 1, "1.0": 1}
    assert found.streams[""] > 2e-6  # the host takes longer between two launches than a kernel takes
    assert found.host.keys() == {"", "0", "1", "1.0"}


@pytest.mark.usefixtures("device")
def test_in_training_backward_has_rows_of_its_own_and_the_sums_are_the_busy_times():
    model = two()
    run = Run(model, (torch.ones(3, 4),), train=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))

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

    found = timed(Run(two(), (torch.ones(3, 4),)))

    assert microseconds(found.forward)[""] == 1
    (doubt,) = [caveat for caveat in found.caveats if isinstance(caveat, UnplacedKernels)]
    assert (doubt.names, doubt.seconds) == (("gemm",), pytest.approx(1e-6))


@pytest.mark.usefixtures("device")
def test_a_loss_is_outside_the_model_and_not_in_its_idle_time():
    weight = torch.ones(2, 2)
    run = Run(two(), (torch.ones(3, 4),), train=True, loss=lambda output: (output @ weight).sum())

    tracing = run_traced(run)
    timing = tracing.timing(Timing(forward=Stat((1e-3,))), training=True)

    assert microseconds(tracing.forward()) == {"0": 1, "1.0": 1, "<outside>": 1}
    assert timing.busy == pytest.approx(3e-6)
    assert timing.idle == pytest.approx(1e-3 - 2e-6)


@pytest.mark.usefixtures("device")
def test_the_last_of_several_timed_steps_of_a_window_is_traced(monkeypatch):
    model = two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with StepWindow(model, optimizer, steps=range(1, 4), clock=Clock()) as prof:
        for _ in range(5):
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    monkeypatch.setattr(Run, "device", torch.device("cpu"))  # its name and peak are looked up where the profile is made

    assert len(prof.profile.timing.step.samples) == 1
    assert prof.profile["1.0"].latency == pytest.approx(1e-6)
    assert prof.profile["1.0"].backward_latency == pytest.approx(2e-6)
