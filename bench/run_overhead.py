"""What `flopsight run` costs on the steps that it does not profile: medians of interleaved blocks of steps, as ratios.

python bench/run_overhead.py [--seconds 25]

Before the window a hook counts the optimizer's steps, or a wrapper the forwards of a model that only infers; after the
window the hook is still there and returns at once. The same steps run with and without them in turn, in one process, in
processor time; a ratio is taken within each round, so that a machine that slows down for a while slows both sides of it.
The target is 1.01x. The last model is the worst case that we could think of: next to no work a step.
"""

import argparse
import gc
from statistics import median, quantiles
from time import perf_counter, process_time

import torch
from torch import nn
from turns import Step, enough_steps, training

from flopsight import zoo
from flopsight.script.script_loop import ScriptLoop
from flopsight.script.search import Search

NEVER = 10**9
TARGET = 1.01
BLOCK_SECONDS = 0.1
LEAST_ROUNDS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=25, help="how long to measure each of the four cases")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, medians of ratios; target {TARGET}x", flush=True)
    images = torch.randn(2, 3, 32, 32)
    ids = torch.randint(0, 1000, (1, 16))
    compare("ResNet-18, two 32x32 images, training", training(zoo.build("resnet18").model, images)[0], seconds)
    compare("ResNet-18, two 32x32 images, inference", inference(zoo.build("resnet18").model.eval(), images), seconds)
    compare("GPT-2, 16 tokens, inference", inference(zoo.build("gpt2").model.eval(), ids), seconds)
    tiny = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    compare("MLP of 90 parameters, training", training(tiny, torch.randn(4, 8))[0], seconds)


def inference(model: nn.Module, batch: torch.Tensor) -> Step:
    def step() -> None:
        with torch.no_grad():
            model(batch)

    return step


def compare(title: str, step: Step, seconds: float) -> None:
    """Rounds of three blocks of steps: plain, before the window, after it. Each round gives a ratio of its own."""
    per = "optimizer" if "training" in title else "forward"
    kinds = ("plain", "before the window", "after the window")
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    block = enough_steps(step, BLOCK_SECONDS)
    gc.collect()
    gc.disable()
    deadline = perf_counter() + seconds
    turn = 0
    while perf_counter() < deadline or turn < LEAST_ROUNDS:
        for kind in (*kinds[turn % 3 :], *kinds[: turn % 3]):
            loop = None if kind == "plain" else attached(step, per, after=kind == "after the window")
            for _ in range(1 + block // 5):
                step()  # Python's caches notice what was attached or taken off
            begin = process_time()
            for _ in range(block):
                step()
            taken[kind].append((process_time() - begin) / block)
            if loop is not None:
                loop.end(None)
        gc.collect()
        turn += 1
    gc.enable()
    print(f"\n{title}: {median(taken['plain']) * 1e3:.3g} ms a step, {turn} rounds of {block} steps", flush=True)
    for kind in kinds[1:]:
        ratios = [ours / plain for ours, plain in zip(taken[kind], taken["plain"], strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        verdict = "" if middle <= TARGET else f"   over {TARGET}x"
        print(f"  {kind:<20}{middle:>7.3f}x   half of the rounds from {low:.3f}x to {high:.3f}x{verdict}", flush=True)


def attached(step: Step, per: str, *, after: bool) -> ScriptLoop:
    """A loop that is watched, some steps before its window or after it."""
    loop = ScriptLoop(Search(first=1 if after else NEVER, last=1 if after else NEVER, per=per), lambda _make: None)
    loop.watch()
    step()
    while after and not loop.delivered:
        step()
    return loop


if __name__ == "__main__":
    main()
