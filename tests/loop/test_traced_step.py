"""A window on a device, which the host plays: its last step is traced for the time of every module."""

import pytest
import torch
from traced_host import fake_device, two

from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time.clock import Clock
from flopsight.loop.window import StepWindow


@pytest.fixture(name="device")
def _device(monkeypatch):
    return fake_device(monkeypatch)


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
    monkeypatch.setattr(
        ModelRun, "device", torch.device("cpu")
    )  # its name and peak are looked up where the profile is made

    assert len(prof.profile.timing.step.samples) == 1
    assert prof.profile["1.0"].latency == pytest.approx(1e-6)
    assert prof.profile["1.0"].backward_latency == pytest.approx(2e-6)
