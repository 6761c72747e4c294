"""What following the memory of a training step costs: medians of interleaved runs in one process, as ratios to the targets.

python bench/memory.py [--rounds 20]
"""

import argparse
from resource import RUSAGE_SELF, getrusage

import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from turns import interleaved, say

import flopsight
from flopsight import zoo
from flopsight.engine.counting import Recording
from flopsight.engine.run_profile import Options
from flopsight.zoo.gpt import GPT, GPTConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="interleaved runs of each kind")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, medians of {rounds} interleaved runs")
    host_bound(rounds)
    on_meta(max(3, rounds // 6))
    long_recording()


def long_recording() -> None:
    """150,000 forwards in one recording: what its notes take after the first 20,000."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), torch.randn(2, 4)
    with torch.no_grad(), flopsight.recording(model):
        for number in range(150_000):
            model(x)
            if number == 20_000:
                before = getrusage(RUSAGE_SELF).ru_maxrss
    print(f"\n150,000 forwards: {(getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024:.0f} MiB after the first 20,000")


def host_bound(rounds: int) -> None:
    """Steps whose ops are so small that the host's own work takes the time."""
    resnet = zoo.build("resnet50").model.eval()  # one image has no statistics of a batch at the end of the net
    compared("ResNet-50, one image of 32x32", resnet, torch.randn(1, 3, 32, 32), rounds)
    thin = GPT(GPTConfig(vocabulary=100, context=64, hidden=128, heads=4))
    compared("GPT-2 of width 128, 64 tokens", thin, torch.zeros(1, 64, dtype=torch.int64), rounds)


def compared(name: str, model: nn.Module, x: torch.Tensor, rounds: int) -> None:
    """Forward and backward plain, counted, counted with its memory, and under torch's own tracker."""

    def step() -> None:
        model.zero_grad()
        model(x).sum().backward()

    def counted() -> None:
        with Recording(model):
            step()

    def followed() -> None:
        with Recording(model, Options(memory=True)):
            step()

    def by_torch() -> None:
        tracker = MemTracker()
        tracker.track_external(model, x)
        with tracker:
            step()

    times = interleaved({"plain": step, "counted": counted, "followed": followed, "torch": by_torch}, rounds)
    plain = times["plain"]
    print(f"\n{name}, forward and backward (host-bound): {plain * 1e3:.1f} ms plain")
    say("the memory tracker by itself", 1 + (times["followed"] - times["counted"]) / plain, "at most 1.6x")
    say("counting", times["counted"] / plain)
    say("counting and the memory tracker", times["followed"] / plain)
    say("torch's MemTracker", times["torch"] / plain, "9.9x when we set out")


def on_meta(rounds: int) -> None:
    """A training step of BERT-base, batch 8: the real step beside the count of it without a kernel."""
    model, _, kwargs = zoo.build("bert-base", 8)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(**kwargs).logits.sum().backward()
        optimizer.step()

    def counted() -> None:
        flopsight.count(model, (), kwargs, train=True, optimizer=optimizer, on="meta")

    step()
    times = interleaved({"plain": step, "counted": counted}, rounds)
    print(f"\nBERT-base, batch 8, 128 tokens, a training step: {times['plain'] * 1e3:.0f} ms real")
    print(f"  counted on meta, with its memory  {100 * times['counted'] / times['plain']:>6.1f} %  at most 10 %")


if __name__ == "__main__":
    main()
