"""What the tests of the profilers share."""

import pytest
import torch
from toys import HIDDEN, LINEAR_FLOPS, ROWS, WIDE

from flopsight import AProfiler, FlopsProfiler, TIDSProfiler

KINDS = [FlopsProfiler, TIDSProfiler, AProfiler]
FLOPS = LINEAR_FLOPS + 5 * ROWS * HIDDEN + 2 * ROWS * HIDDEN
"""Batch norm in training, and a mask that is scaled and applied."""
X = torch.ones(ROWS, WIDE)


def profiled(model, kind=FlopsProfiler, times=1, **options):
    profiler = kind(model)
    profiler.start_profile(**options)
    for _ in range(times):
        model(X)
    profiler.stop_profile()
    return profiler


def hooked(model):
    """The same model with a hook, which makes us count while it runs."""
    model.register_forward_hook(lambda *_: None)
    return model


both_ways = pytest.mark.parametrize("prepare", [lambda model: model, hooked], ids=["on a twin", "live"])
