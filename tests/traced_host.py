"""A device without one: a real trace of the host, in which every matrix product launches a kernel of a microsecond."""

from contextlib import contextmanager

import torch
from torch import nn

from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time import device_trace, kineto
from flopsight.capture.time.kernels import TraceEvent

KERNEL = 1000
"""Nanoseconds; a microsecond later on the device than on the host."""
PRODUCTS = ("aten::addmm", "aten::mm")


def launched(event, number, stranger):
    call = TraceEvent("cudaLaunchKernel", event.begin, event.end, device=False, lane=event.lane, correlation=number)
    begin = event.begin + KERNEL
    kernel = TraceEvent("gemm", begin, begin + KERNEL, device=True, lane=7, correlation=0 if stranger else number)
    return call, kernel


def fake_device(monkeypatch):
    """A device that does matrix products; those listed by number are launched by nobody knows whom."""
    strangers = set()

    @contextmanager
    def trace(_device):
        with kineto.device_trace(torch.device("cpu")) as found:
            yield found
        products = [event for event in found if event.name in PRODUCTS]
        for i, event in enumerate(products):
            found += launched(event, 10**9 + i, i in strangers)

    monkeypatch.setattr(device_trace, "device_trace", trace)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *_: None)
    monkeypatch.setattr(ModelRun, "device", torch.device("xpu"))
    return strangers


def two():
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2)))


def microseconds(rows):
    return {path: round(seconds * 1e6, 3) for path, seconds in rows.items()}
