"""Memory of compiled steps for any micro-batch: two are traced, and all others lie on the line through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..analysis.plan.workload import Workload, compiled
from ..capture.hooks.internals import NotTracedError
from ..capture.twin.compiled_memory import CompiledBytes

Depth = Mapping[str, Sequence[int]]
"""By the path of each list of blocks, those that stay in it."""


class CompiledSteps:
    """Traces a model with few blocks, and remembers what its steps keep."""

    def __init__(self, trace: Callable[[int, Depth], CompiledBytes]) -> None:
        self._trace = trace
        self._known: dict[int, list[CompiledBytes]] = {}
        self._traceable = True

    def remembered(self, work: Workload, micro_batch: int, depths: Sequence[Depth]) -> Workload:
        """The work with the memory of a compiled step; as it is if the model cannot be traced."""
        if not self._traceable:
            return work
        known = self._known
        if len(known) < 2:  # a line needs two points
            try:
                known[micro_batch] = [self._trace(micro_batch, depth) for depth in depths]
            except NotTracedError:
                self._traceable = False
                return work
        base, *longer = known.get(micro_batch) or _on_the_line(known, micro_batch)
        return compiled(work, base, longer)


def _on_the_line(known: Mapping[int, Sequence[CompiledBytes]], micro_batch: int) -> list[CompiledBytes]:
    (first, here), (second, there) = known.items()
    share = (micro_batch - first) / (second - first)

    def between(one: int, other: int) -> int:
        return round(one + share * (other - one))

    return [
        CompiledBytes(between(a.kept, b.kept), between(a.peak, b.peak), between(a.after, b.after))
        for a, b in zip(here, there, strict=True)
    ]
