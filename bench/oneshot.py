"""What FlopsProfiler reports of one forward on a CPU, against the same forward in its loop.

    python bench/oneshot.py     # seven kinds of models, from 0.02 to 20 ms

Each shot has plain forwards of the loop before it and after it, and the truth is their median. Medians over all shots, both
sides in turn in one process, in CPU time on one thread, so that other work on the machine counts for little. `raw` is
what the profiled call itself took, with our marks in it.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter, thread_time

import torch
from torch import nn

from flopsight.capture.time.clock import Clock
from flopsight.loop.oneshot import OneShot
from flopsight.zoo.resnet import resnet50

SECONDS = 15
TARGET = "1.05"
FORWARDS = 5


class Block(nn.Module):
    """A transformer block without anything clever."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(3, dim=-1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())

    def forward(self, x):
        return x + self.conv(x)


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


def layers(width, number):
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(number))), torch.randn(32, width)


def blocks():
    return nn.Sequential(Block(), Block(), Block()), torch.randn(1, 32, 128)


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 16, 3), *(Residual(16) for _ in range(6))).eval(), torch.randn(1, 3, 32, 32)


def small_modules():
    return nn.Sequential(*(Scale(64) if i % 2 else nn.ReLU() for i in range(300))), torch.randn(8, 64)


CASES = {
    "tiny layers": (lambda: layers(64, 2), ""),
    "16 layers": (lambda: layers(256, 16), TARGET),
    "3 transformer blocks": (blocks, TARGET),
    "7 convolutions": (convolutions, TARGET),
    "300 small modules": (small_modules, TARGET),
    "8 wide layers": (lambda: layers(1024, 8), TARGET),
    "ResNet-50, 32x32": (lambda: (resnet50().eval(), torch.randn(1, 3, 32, 32)), TARGET),
}


def plain(model, x):
    """Seconds of forwards in their loop."""
    found = []
    for _ in range(2 + FORWARDS):
        begin = thread_time()
        output = model(x)
        found.append(thread_time() - begin)
        del output  # after the clock was read: a graph takes time to be freed
    return found[2:]


def shot(model, x):
    """The true seconds of a forward, those that are reported, and those of the profiled call itself."""
    before = plain(model, x)
    watched = OneShot(model, Clock(now=thread_time))  # what FlopsProfiler does, by another clock
    watched.start()
    model(x)
    watched.stop()
    after = plain(model, x)
    timing = watched.profile.timing
    reported = timing.forward.median
    return median(before + after), reported, reported * (timing.distortion or 1.0)


def main():
    torch.set_num_threads(1)
    print(f"{'model':22} {'true ms':>9} {'reported/true':>14} {'raw/true':>9} {'target':>8}")
    for name, (make, target) in CASES.items():
        model, x = make()
        for train in (False, True):
            with torch.set_grad_enabled(train):
                plain(model, x)
                until, found = perf_counter() + SECONDS / 2, []
                while perf_counter() < until:
                    found.append(shot(model, x))
            true = median(one[0] for one in found)
            ratio, raw = (median(one[i] / one[0] for one in found) for i in (1, 2))
            kind = "gradients" if train else name
            print(
                f"{kind:>22} {true * 1e3:9.3f} {ratio:14.3f} {raw:9.3f} {target:>8}   ({len(found)} shots)", flush=True
            )


if __name__ == "__main__":
    main()
