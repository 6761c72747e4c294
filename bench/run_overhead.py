"""What `flopsight run` costs on the steps that it does not profile: medians of interleaved steps, as ratios.

python bench/run_overhead.py [--rounds 60]

Before the window a hook counts the optimizer's steps, or a wrapper the forwards of a model that only infers; after the
window the hook is still there and returns at once. The same steps run with and without them in turn, in one process,
in processor time. The target is 1.01x. The last model is the worst case that we could think of: next to no work a step.
"""

import argparse
import gc
from collections.abc import Callable
from statistics import median
from time import process_time

import torch
from torch import nn

from flopsight import zoo
from flopsight.script.loop import Loop
from flopsight.script.plan import Plan

NEVER = 10**9
TARGET = 1.01
Step = Callable[[], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="interleaved blocks of steps of each kind")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, medians of {rounds} interleaved blocks; target {TARGET}x")
    images = torch.randn(2, 3, 32, 32)
    ids = torch.randint(0, 1000, (1, 16))
    compare("ResNet-18, two 32x32 images, training", training(zoo.build("resnet18").model, images), rounds, 2)
    compare("ResNet-18, two 32x32 images, inference", inference(zoo.build("resnet18").model.eval(), images), rounds, 10)
    compare("GPT-2, 16 tokens, inference", inference(zoo.build("gpt2").model.eval(), ids), max(5, rounds // 3), 3)
    tiny = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    compare("MLP of 90 parameters, training", training(tiny, torch.randn(4, 8)), rounds, 200)


def training(model: nn.Module, batch: torch.Tensor) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        output = model(batch)
        (output if isinstance(output, torch.Tensor) else output[0]).float().square().mean().backward()
        optimizer.step()

    return step


def inference(model: nn.Module, batch: torch.Tensor) -> Step:
    def step() -> None:
        with torch.no_grad():
            model(batch)

    return step


def compare(title: str, step: Step, rounds: int, block: int) -> None:
    """Blocks of steps with and without what is attached before and after a window, in turn."""
    training = "training" in title
    kinds = ("plain", "before the window", "after the window")
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    per = "optimizer" if training else "forward"
    for _ in range(3):
        step()
    gc.collect()
    gc.disable()
    for turn in range(rounds):
        for kind in (*kinds[turn % 3 :], *kinds[: turn % 3]):
            loop = None if kind == "plain" else attached(step, per, after=kind == "after the window")
            for _ in range(1 + block // 5):
                step()  # Python's caches notice what was attached or taken off
            begin = process_time()
            for _ in range(block):
                step()
            times[kind].append((process_time() - begin) / block)
            if loop is not None:
                loop.end(None)
        gc.collect()
    gc.enable()
    plain = median(times["plain"])
    print(f"\n{title}: {plain * 1e3:.3g} ms a step")
    for kind in kinds[1:]:
        print(f"  {kind:<20}{median(times[kind]) / plain:>7.3f}x")


def attached(step: Step, per: str, *, after: bool) -> Loop:
    """A loop that is watched, some steps before its window or after it."""
    loop = Loop(Plan(first=1 if after else NEVER, last=1 if after else NEVER, per=per), lambda _make: None)
    loop.watch()
    step()
    while after and not loop.delivered:
        step()
    return loop


if __name__ == "__main__":
    main()
