"""What FlopsProfiler reports of one forward on a CPU, against the same forward in its loop.

    python bench/oneshot.py     # layers of 1 and of 10 ms, ResNet-50 (batch 1, 32x32), a tiny layer

Each shot has a plain forward of the loop before it and one after it; the ratio is to the mean of both. Medians of shots in
one process, in CPU time on one thread, so that other work on the machine counts for little.
"""

from __future__ import annotations

import time
from statistics import median
from time import process_time

import torch
from torch import nn

import flopsight
from flopsight.zoo.resnet import resnet50

SECONDS = 20
TARGET = "1.05"


def layers(width, number):
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(number))), torch.randn(32, width)


CASES = {
    "tiny, 0.05 ms": (lambda: layers(64, 2), ""),
    "layers, 1 ms": (lambda: layers(256, 16), TARGET),
    "layers, 10 ms": (lambda: layers(1024, 8), TARGET),
    "ResNet-50": (lambda: (resnet50().eval(), torch.randn(1, 3, 32, 32)), TARGET),
}


class Timed(nn.Module):
    """A model that notes the CPU seconds of its own forward: a clock around it would be slower than the marks in it."""

    def __init__(self, model):
        super().__init__()
        self.model, self.spent = model, 0.0

    def forward(self, x):
        begin = process_time()
        output = self.model(x)
        self.spent = process_time() - begin
        return output


def plain(model, x):
    """CPU seconds of a forward in its loop, after another one."""
    model(x)
    model(x)
    return model.spent


def shot(model, x):
    """CPU seconds of a forward that is profiled, and the mean of the plain forwards around it."""
    before = plain(model, x)
    profiler = flopsight.FlopsProfiler(model)
    profiler.start_profile()
    model(x)
    profiler.stop_profile()
    profiled = model.spent
    return profiled, (before + plain(model, x)) / 2


def main():
    torch.set_num_threads(1)
    print(f"{'model':16} {'true ms':>9} {'shot/true':>10} {'target':>8}")
    for name, (make, target) in CASES.items():
        model, x = make()
        model = Timed(model)
        with torch.no_grad():
            for _ in range(5):
                model(x)
            until, found = time.perf_counter() + SECONDS, []
            while time.perf_counter() < until:
                found.append(shot(model, x))
        true = median(true for _, true in found)
        ratio = median(profiled / true for profiled, true in found)
        print(f"{name:16} {true * 1e3:9.2f} {ratio:10.3f} {target:>8}   ({len(found)} shots)", flush=True)


if __name__ == "__main__":
    main()
