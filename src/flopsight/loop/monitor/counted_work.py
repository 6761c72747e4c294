"""The work of a model's calls, counted once for each kind of call and remembered."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import nan

import torch
from torch import nn

from ...analysis.limits.utilization import hardware_work, model_work
from ...analysis.phase_filter import only
from ...capture.hooks import internals
from ...capture.model.model_run import ModelRun
from ...capture.model.tensors import tensors_in
from ...capture.twin.known_values import noting_reads
from ...capture.twin.meta_copy import NoTwinError
from ...distributed.shards import inside
from ...distributed.topology import world_of
from ...engine.counting import count_on_twin, own_work
from ...engine.parallel_figures import unsharded_run
from ...hardware.detect import detect
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, RECOMPUTE
from ..quiet import quiet

MOST_SHAPES = 64
"""Kinds of calls that are counted. The work of further ones is interpolated in their tokens."""


@dataclass(frozen=True, slots=True)
class Work:
    """Matrix work: FLOPs of the model, and seconds of it at the device's peak, without and with what is repeated.

    A figure that is not known is nan, and so is every sum with it: each step adds here, and asks nothing.
    """

    flops: float = 0.0
    at_peak: float = 0.0
    all_at_peak: float = 0.0
    estimated: bool = False

    def __add__(self, other: Work) -> Work:
        """Both."""
        return Work(
            self.flops + other.flops,
            self.at_peak + other.at_peak,
            self.all_at_peak + other.all_at_peak,
            self.estimated or other.estimated,
        )

    def scaled(self, share: float) -> Work:
        """So many times this work, as an estimate."""
        return Work(self.flops * share, self.at_peak * share, self.all_at_peak * share, estimated=True)


UNKNOWN = Work(nan, nan, nan)


@dataclass(frozen=True, slots=True)
class CallCount:
    """The work of a call, and of a backward through it."""

    forward: Work = UNKNOWN
    backward: Work = UNKNOWN

    def as_estimate(self) -> CallCount:
        """The same work, for a call that may do more or less."""
        return CallCount(self.forward.scaled(1.0), self.backward.scaled(1.0))


UNCOUNTED = CallCount()
NOTHING = CallCount(Work(), Work())


@dataclass
class CountedWork:
    """Every kind of work that was counted, by its key."""

    peaks: Mapping[str, float]
    known: dict[Hashable, CallCount]
    sizes: dict[Hashable, list[tuple[int, CallCount]]]
    """By everything but the shapes: sizes and work of what was counted, to interpolate between."""
    first: Profile | None = None
    """The first count, by module."""

    @staticmethod
    def on(device: torch.device) -> CountedWork:
        """Nothing counted yet, on a device."""
        peaks = detect(device).peak_flops() if device.type != "meta" else {}
        return CountedWork(peaks, {}, {})

    @property
    def full(self) -> bool:
        """True if no further kind of call is counted."""
        return len(self.known) >= MOST_SHAPES

    def remember(self, key: Hashable, family: Hashable, size: int, profile: Profile) -> CallCount:
        """Note the work of a kind of call, or of a step, from its profile."""
        count = CallCount(self._work(profile, (FORWARD,)), self._work(profile, (BACKWARD, RECOMPUTE)))
        self.known[key] = count
        self.sizes.setdefault(family, []).append((size, count))
        if self.first is None:
            self.first = profile
        return count

    def _work(self, profile: Profile, phases: tuple[str, ...]) -> Work:
        """The matrix work of some phases of a counted run."""
        here = replace(only(profile, phases), peak_flops=dict(self.peaks))
        once, all_of_it = model_work(here), hardware_work(here)
        return Work(sum(once.values()), self._at_peak(once), self._at_peak(all_of_it))

    def _at_peak(self, work: Mapping[str, float]) -> float:
        if any(not self.peaks.get(dtype) for dtype in work):
            return nan
        return sum(flops / self.peaks[dtype] for dtype, flops in work.items())

    def estimate(self, family: Hashable, size: int) -> CallCount:
        """The work at a size between or beyond those that were counted; not known if none of the family was."""
        points = sorted(self.sizes.get(family, ()), key=lambda point: point[0])
        if not points or not size:
            return UNCOUNTED
        equal = [count for at, count in points if at == size]
        if equal:  # they differ in something that the sizes do not show
            return reduce(lambda sum_, one: _mixed(sum_, one, 1.0, 1 / len(equal)), equal, NOTHING)
        below = [point for point in points if point[0] <= size]
        above = [point for point in points if point[0] > size]
        if not below or not above:
            near, count = below[-1] if below else above[0]
            return _mixed(count, count, size / near, 0.0) if near else UNCOUNTED
        (low, less), (high, more) = below[-1], above[0]
        share = (size - low) / (high - low)
        return _mixed(less, more, 1 - share, share)


def _mixed(one: CallCount, other: CallCount, share: float, rest: float) -> CallCount:
    return CallCount(
        one.forward.scaled(share) + other.forward.scaled(rest),
        one.backward.scaled(share) + other.backward.scaled(rest),
    )


def count_call(
    model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object], *, train: bool
) -> tuple[Profile, set[int]]:
    """Count a call of a model, and its backward, on a meta twin; raises NoTwinError if there can be none.

    Gives the profile, and which of the tensors that it is called with were read, so that their values may decide its work.
    The loss is the default one: what a loop makes of the output is mostly pointwise, and `backward_path` notices if not.
    """
    run = ModelRun(inside(model), tuple(args), dict(kwargs), train=train)
    try:
        given = [internals.storage_key(tensor) for tensor in tensors_in((args, kwargs))]
        with own_work(), quiet(), noting_reads() as read:
            if world_of([model]).sharded and world_of([model]).model_parallel == 1:
                run = unsharded_run(run)  # each rank runs the whole model, on a batch of its own
            profile = count_on_twin(run).recording.profile
    except NoTwinError:
        raise
    except Exception as problem:
        raise NoTwinError(f"{type(problem).__name__}: {problem}") from problem
    return profile, {at for at, key in enumerate(given) if key in read}


def may_train(model: nn.Module, args: object, kwargs: object) -> bool:
    """Whether a call can have a backward: gradients are on, and a parameter or an input needs one."""
    if not torch.is_grad_enabled():
        return False
    return any(tensor.requires_grad for tensor in (*model.parameters(), *ModelRun(model, (args, kwargs)).tensors))
