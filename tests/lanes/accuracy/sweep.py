"""One architecture counted three times: on real tensors, on its meta twin, and by torch's own counter."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from architectures import ARCHITECTURES, Architecture, Example
from reasons import Reason
from torch.utils.flop_counter import FlopCounterMode
from torch_counter import attribution

import flopsight
from flopsight.capture.model.model_run import default_loss
from flopsight.results.caveats import Assumed, NoTwin
from flopsight.results.profile import Profile

COLUMNS = ("macs", "flops", "bytes")


class Difference(NamedTuple):
    """An op of one module that costs something else on meta."""

    module: str
    kind: str
    phase: str
    op: str
    column: str
    real: int
    meta: int


@dataclass(frozen=True)
class Result:
    """What the three counts say."""

    architecture: Architecture
    params: int
    macs: int
    backward_macs: int
    rows: int
    unknown: tuple[str, ...]
    share: float
    no_twin: str
    no_twin_in_inference: str
    assumed: tuple[str, ...]
    differences: tuple[Difference, ...]
    inference_differences: tuple[str, ...]
    """Modules whose forward MACs differ on meta when nothing is trained."""
    torch_macs: int
    torch_macs_from_our_records: int
    missing_in_torch: Counter

    @property
    def total(self) -> int:
        """MACs of the step."""
        return self.macs + self.backward_macs

    def unexplained(self, *columns: str) -> list[Difference]:
        """The differences for which the architecture states no reason."""
        return [
            one
            for one in self.differences
            if one.column in columns and not any(reason.covers(one.column, one.kind, one.op) for reason in self.reasons)
        ]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why FLOPs or bytes may differ on meta."""
        return self.architecture.reasons


@cache
def result(name: str) -> Result:
    """Count an architecture; each is counted once a process."""
    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    example = architecture.build()
    example.model.train()
    with flopsight.recording(example.model) as recording:
        _step(example)
    torch_macs, missing = attribution(recording.tape.records())
    with FlopCounterMode(display=False) as counter:
        _step(example)
    real, meta = (_count(example, on, train=True) for on in ("real", "meta"))
    example.model.eval()
    with torch.no_grad():
        forward, meta_forward = (_count(example, on) for on in ("real", "meta"))
    return Result(
        architecture=architecture,
        params=real.params,
        macs=real.macs,
        backward_macs=real.backward.macs + real.recompute.macs,
        rows=len(real.nodes),
        unknown=tuple(real.coverage.unknown) + tuple(meta.coverage.unknown),
        share=real.coverage.share,
        no_twin=_no_twin(meta),
        no_twin_in_inference=_no_twin(meta_forward),
        assumed=tuple(doubt.what for doubt in meta.caveats if isinstance(doubt, Assumed)),
        differences=tuple(_differences(real, meta, architecture.pooled)),
        inference_differences=tuple(_other_macs(forward, meta_forward, architecture.pooled)),
        torch_macs=counter.get_total_flops() // 2,
        torch_macs_from_our_records=torch_macs,
        missing_in_torch=missing,
    )


def _step(example: Example) -> None:
    default_loss(example.model(*example.args, **example.kwargs)).backward()


def _count(example: Example, on: str, *, train: bool = False) -> Profile:
    return flopsight.count(example.model, example.args, dict(example.kwargs), train=train, on=on)


def _no_twin(profile: Profile) -> str:
    return "; ".join(doubt.why for doubt in profile.caveats if isinstance(doubt, NoTwin))


def _costs(profile: Profile, pooled: str) -> dict[tuple[str, str, str], Counter]:
    """Costs by module, phase and op; what a pooled module's submodules do counts as its own."""
    costs: defaultdict[tuple[str, str, str], Counter] = defaultdict(Counter)
    for node in profile.walk():
        for row in node.ops:
            costs[_pool(node.path, pooled), row.phase, row.op].update(
                {column: getattr(row.cost, column) for column in COLUMNS}
            )
    return costs


def _pool(path: str, pooled: str) -> str:
    names = path.split(".")
    return ".".join(names[: names.index(pooled) + 1]) if pooled in names else path


def _differences(real: Profile, meta: Profile, pooled: str) -> Iterator[Difference]:
    ours, theirs = _costs(real, pooled), _costs(meta, pooled)
    for module, phase, op in sorted(ours.keys() | theirs.keys()):
        for column in COLUMNS:
            one, other = ours[module, phase, op][column], theirs[module, phase, op][column]
            if one != other:
                yield Difference(module, real[module].kind, phase, op, column, one, other)


def _other_macs(real: Profile, meta: Profile, pooled: str) -> Iterator[str]:
    totals: defaultdict[str, Counter] = defaultdict(Counter)
    for which, profile in (("real", real), ("meta", meta)):
        for node in profile.walk():
            totals[_pool(node.path, pooled)][which] += node.own.forward.macs
    return (module for module, macs in totals.items() if macs["real"] != macs["meta"])
