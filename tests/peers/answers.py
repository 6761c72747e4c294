"""What one tool answered, held against arithmetic."""

from __future__ import annotations

from functools import cached_property
from statistics import fmean

from peers import tools
from peers.case import error, is_right
from peers.cases import CASES

GROUPS = tuple(dict.fromkeys(case.group for case in CASES.values()))


class Answers:
    """A tool's answers by case: a number, a text if it failed, None if it does not offer one."""

    def __init__(self, name: str, said: dict) -> None:
        self.name, self.said = name, said
        self.forward, self.training = said["forward"], said["training"]

    @cached_property
    def all(self) -> dict:
        return {**self.forward, **self.training}

    def is_right(self, case: str) -> bool:
        answer = self.all[case]
        return isinstance(answer, float) and is_right(answer, CASES[case])

    def right(self, some: dict) -> int:
        return sum(self.is_right(case) for case in some)

    def share(self, group: str) -> str:
        """How many cases of a group are right."""
        some = [case for case in self.all if CASES[case].group == group]
        if all(self.all[case] is None for case in some):
            return "-"
        return f"{sum(map(self.is_right, some))}/{len(some)}"

    def failed(self) -> int:
        return sum(isinstance(answer, str) for answer in self.all.values())

    def zeros(self) -> int:
        """Cases in which it says, without a word, that nothing is multiplied."""
        return sum(answer == 0 for answer in self.all.values())

    def ratio(self, case: str) -> str:
        """The answer over the right one."""
        answer = self.all[case]
        if isinstance(answer, str):
            return "fails"
        nearest = min(CASES[case].answers, key=lambda right: abs(answer - right))
        return f"{answer / nearest:.3g}"

    def worst(self) -> str:
        """The answer above 0 that is furthest off, as a ratio and by its case."""
        numbers = {case: answer for case, answer in self.all.items() if isinstance(answer, float) and answer > 0}
        case = max(numbers, key=lambda case: _distance(numbers[case], CASES[case].answers))
        if error(numbers[case], CASES[case]) == 0:
            return "none"
        return f"{self.ratio(case)} ({case})"

    def rule(self) -> str:
        """How a training step is known."""
        return tools.TOOLS[self.name].rule or ("a count of backward" if tools.TOOLS[self.name].training else "")

    def time(self, what: str) -> float:
        return fmean(times[what] for times in self.said["times"].values() if isinstance(times, dict))

    def latency(self, model: str) -> float | None:
        times = self.said["times"][model]
        return times["latency"] if isinstance(times, dict) else None

    def latencies(self) -> str:
        values = [self.latency(model) for model in self.said["times"]]
        return ", ".join(f"{value:.2f}" for value in values) if all(values) else ""


def _distance(answer: float, right: tuple[int, ...]) -> float:
    """A factor of two too high is as bad as one too low."""
    nearest = min(right, key=lambda one: abs(answer - one))
    return max(answer / nearest, nearest / answer)
