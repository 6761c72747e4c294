"""What `flopsight.monitor` costs a training step: medians of interleaved blocks of steps, with and without, as ratios.

python bench/monitor.py [--seconds 20] [--device cuda]

The same steps run with and without a monitor in turn, in one process; a ratio is taken within each round. On a CPU the
time is the processor's, on one thread. The target is 0.5 % of steps of 5 ms and more, 25 us of shorter ones. Then 100,000 steps of a tiny
model show what the monitor keeps in memory, after 1,000 steps and at the end.
"""

import argparse
import gc
import tracemalloc
from statistics import median, quantiles
from time import perf_counter, process_time

import torch
from torch import nn
from turns import enough_steps, training

import flopsight
from flopsight import zoo

TARGET = 0.005
LEAST_STEP = 0.005
"""Seconds of a step from which on the target holds; a shorter one may take as much longer."""
BLOCK_SECONDS = 0.25
LEAST_ROUNDS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure each model")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {options.device}; medians of ratios, target {TARGET:.1%} of a step", flush=True)
    layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))
    compare("eight Linear layers", layers, torch.randn(64, 64), options)
    compare("ResNet-18, two 32x32 images", zoo.build("resnet18").model, torch.randn(2, 3, 32, 32), options)
    if options.device == "cpu":
        memory()


def compare(title: str, model: nn.Module, batch: torch.Tensor, options: argparse.Namespace) -> None:
    device = torch.device(options.device)
    model.to(device)
    step, optimizer = training(model, batch.to(device))
    now = process_time if device.type == "cpu" else perf_counter
    block = enough_steps(step, BLOCK_SECONDS, least=5)
    taken: dict[bool, list[float]] = {True: [], False: []}
    gc.collect()
    gc.disable()
    deadline, turn = perf_counter() + options.seconds, 0
    while perf_counter() < deadline or turn < LEAST_ROUNDS:
        for watched in (turn % 2 == 0, turn % 2 == 1):
            live = flopsight.monitor(model, optimizer, to=lambda _figures: None) if watched else None
            if live is not None:
                live.__enter__()
            for _ in range(2 + block // 5):
                step()
            wait(device)
            begin = now()
            for _ in range(block):
                step()
            wait(device)
            taken[watched].append((now() - begin) / block)
            if live is not None:
                live.__exit__(None, None, None)
        gc.collect()
        turn += 1
    gc.enable()
    ratios = [ours / plain for ours, plain in zip(taken[True], taken[False], strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    each = median(taken[False])
    most = TARGET * max(each, LEAST_STEP)
    verdict = "" if (middle - 1) * each <= most else f"   more than {most * 1e6:.0f} us"
    print(
        f"{title}: {each * 1e3:.3g} ms a step, {turn} rounds of {block} steps\n  {middle:.4f}x "
        f"({(middle - 1) * each * 1e6:.0f} us a step), half of the rounds from {low:.4f}x to {high:.4f}x{verdict}",
        flush=True,
    )


def wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def memory(steps: int = 100_000) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    step, optimizer = training(model, torch.randn(4, 8))
    tracemalloc.start()
    held = {}
    begin = perf_counter()
    with flopsight.monitor(model, optimizer, to=lambda _figures: None):
        for number in range(1, steps + 1):
            step()
            if number in (1_000, 10_000, steps):
                gc.collect()
                held[number] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"{steps:,} steps in {perf_counter() - begin:.0f} s; bytes held by Python objects:")
    for number, size in held.items():
        print(f"  after {number:>7,} steps {size / 1e6:>7.2f} MB")


if __name__ == "__main__":
    main()
