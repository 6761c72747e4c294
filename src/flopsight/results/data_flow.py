"""The data between modules: which made the tensors that another one took in the forward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

INPUT, OUTPUT = "<input>", "<output>"
"""Where data comes from that was there before the forward, and where the model's results go."""
Place = tuple[str, int]
"""The path of a module, and its turn."""


@dataclass(frozen=True)
class DataFlow:
    """Bytes from place to place, as columns. A place is a module in one of its turns.

    A module that its caller runs three times has three turns, 0 to 2, and so has one that works on itself after each of two
    submodules; one that runs in a long loop has one for all.
    """

    modules: tuple[str, ...] = ()
    """Of each place, the path of its module; `<input>`, `<output>` and `<outside>` are places too."""
    turns: tuple[int, ...] = ()
    """Of each place, the turn."""
    work: tuple[str, ...] = ()
    """Of each place in a module that calls others, the first ops that it runs itself, `aten.add aten.mul`; empty for other modules."""
    sources: tuple[int, ...] = ()
    """Of each flow, the number of the place that made the data."""
    targets: tuple[int, ...] = ()
    """Of each flow, the number of the place that took it."""
    bytes: tuple[int, ...] = ()
    """Of each flow, its bytes over all calls; a tensor that a module reads several times is there once."""

    @property
    def places(self) -> list[Place]:
        """Every module that data goes through, with its turn."""
        return list(zip(self.modules, self.turns, strict=True))

    def __iter__(self) -> Iterator[tuple[Place, Place, int]]:
        """Every flow: the module that made it with its turn, the one that took it, bytes."""
        places = self.places
        for source, target, size in zip(self.sources, self.targets, self.bytes, strict=True):
            yield places[source], places[target], size

    @classmethod
    def of(cls, flows: Mapping[tuple[Place, Place], int], work: Mapping[Place, str]) -> DataFlow:
        """The columns of a table of flows."""
        numbers: dict[Place, int] = {}
        ends = [[numbers.setdefault(place, len(numbers)) for place in ends] for ends in flows]
        sources, targets = zip(*ends, strict=True) if ends else ((), ())
        modules, turns = zip(*numbers, strict=True) if numbers else ((), ())
        return cls(
            modules, turns, tuple(work.get(place, "") for place in numbers), sources, targets, tuple(flows.values())
        )


def chained(flows: Mapping[str, DataFlow | None]) -> DataFlow | None:
    """The flows of a pipeline's stages, by the names that stand before their modules' paths: what one gives, the next one takes.

    None if a stage has no flow, or gives tensors of several modules: which of them the next stage takes is not recorded.
    """
    links: Counter[tuple[Place, Place]] = Counter()
    work: dict[Place, str] = {}
    giver: Place = (INPUT, 0)
    for name, flow in flows.items():
        makers = {source for source, target, _ in flow if target[0] == OUTPUT} if flow is not None else set()
        if flow is None or len(makers) != 1:
            return None
        taken = giver
        for source, target, size in flow:
            if target[0] == OUTPUT:
                giver = taken if source[0] == INPUT else _below(name, source)
            else:
                links[taken if source[0] == INPUT else _below(name, source), _below(name, target)] += size
        work |= {_below(name, place): ops for place, ops in zip(flow.places, flow.work, strict=True)}
    links[giver, (OUTPUT, 0)] += sum(size for _, target, size in flow or () if target[0] == OUTPUT)
    return DataFlow.of(links, work)


def _below(name: str, place: Place) -> Place:
    path, turn = place
    return f"{name}.{path}" if path else name, turn
