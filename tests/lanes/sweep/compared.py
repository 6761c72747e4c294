"""One architecture counted on real tensors and on its meta twin, in every figure of every module row."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from architectures import ARCHITECTURES, Example
from exceptions import ONE_VALUE

import flopsight
from flopsight.results.caveats import NoTwin
from flopsight.results.node import Node
from flopsight.results.profile import Profile

PHASES = ("forward", "backward", "recompute")
FIGURES = ("macs", "flops", "bytes")


class Difference(NamedTuple):
    """A figure of a module that is another one on meta."""

    mode: str
    module: str
    figure: str
    real: int | None
    meta: int | None


@dataclass(frozen=True)
class Result:
    """What the two counts say, trained and not, unless it cannot be trained at that batch size."""

    rows: int
    unknown: tuple[str, ...]
    no_twin: tuple[str, ...]
    differences: tuple[Difference, ...]


@cache
def result(name: str, batch: int) -> Result:
    """Count an architecture at a batch size; each is counted once a process."""
    torch.manual_seed(0)
    example = ARCHITECTURES[name].build(batch)
    differences: list[Difference] = []
    profiles: list[Profile] = []
    for mode in ("inference",) if batch == 1 and name in ONE_VALUE else ("training", "inference"):
        _warm_up(example, train=mode == "training")
        real, meta = (_count(example, on, train=mode == "training") for on in ("real", "meta"))
        differences += _differences(mode, real, meta)
        profiles += real, meta
    return Result(
        rows=len(profiles[0].nodes),
        unknown=tuple(sorted({op for profile in profiles for op in profile.coverage.unknown})),
        no_twin=tuple(doubt.why for profile in profiles for doubt in profile.caveats if isinstance(doubt, NoTwin)),
        differences=tuple(differences),
    )


def _warm_up(example: Example, *, train: bool) -> None:
    """Functions that keep what they made have it from here on, in both counts."""
    example.model.train(train)
    with torch.no_grad():
        example.model(*example.args, **example.kwargs)


def _count(example: Example, on: str, *, train: bool) -> Profile:
    torch.manual_seed(0)
    example.model.train(train)
    with torch.set_grad_enabled(train):
        if on == "meta":
            return flopsight.count(example.model, example.args, dict(example.kwargs), train=train, on=on)
        # profile() without times: a plain count follows memory on real tensors only when it trains.
        return flopsight.profile(example.model, example.args, dict(example.kwargs), train=train, latency=False)


def _differences(mode: str, real: Profile, meta: Profile) -> Iterator[Difference]:
    theirs = {node.path: _figures(node) for node in meta.walk()}
    for node in real.walk():
        for figure, value in _figures(node).items():
            other = theirs.get(node.path, {}).get(figure)
            if value != other:
                yield Difference(mode, node.path, figure, value, other)
    for path in theirs.keys() - {node.path for node in real.walk()}:
        yield Difference(mode, path, "rows", 0, 1)
    if real.peak_bytes != meta.peak_bytes:
        yield Difference(mode, "", "peak of the step", real.peak_bytes, meta.peak_bytes)


def _figures(node: Node) -> dict[str, int | None]:
    """What a module's own ops cost, and the memory that it keeps."""
    costs = {f"{phase} {figure}": getattr(getattr(node.own, phase), figure) for phase in PHASES for figure in FIGURES}
    return costs | {"saved bytes": node.own_activation_bytes, "peak bytes": node.own_peak_bytes}
