"""Runs that take turns: what the other scripts here measure with."""

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time

import torch
from torch import nn

Step = Callable[[], None]


def interleaved(kinds: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each kind; they take turns, so that a change of the machine's pace meets all alike.

    Time is the processor's: everything here runs on one thread, and others on the machine shall not count.
    """
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for run in kinds.values():
        run()
    for _ in range(rounds):
        for name, run in kinds.items():
            gc.collect()
            begin = process_time()
            run()
            times[name].append(process_time() - begin)
    return {name: median(taken) for name, taken in times.items()}


def say(name: str, ratio: float, target: str = "") -> None:
    print(f"  {name:<34}{ratio:>6.2f}x  {target}".rstrip())


def training(model: nn.Module, batch: torch.Tensor) -> tuple[Step, torch.optim.Optimizer]:
    """A training step of a model, and its optimizer."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        output = model(batch)
        (output if isinstance(output, torch.Tensor) else output[0]).float().square().mean().backward()
        optimizer.step()

    return step, optimizer


def enough_steps(step: Step, seconds: float, least: int = 1) -> int:
    """So many steps that a block takes long enough to be timed."""
    for _ in range(3):
        step()
    begin = perf_counter()
    step()
    return max(least, min(500, round(seconds / (perf_counter() - begin))))
