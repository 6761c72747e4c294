"""Runs that take turns: what the other scripts here measure with."""

import gc
from collections.abc import Callable
from statistics import median
from time import process_time


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
