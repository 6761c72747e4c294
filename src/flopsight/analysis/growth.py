"""How cost grows along one axis of a sweep: constant, linear and quadratic part, for every kind of module."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..tree import Profile

EXACT = 1e-6
"""Share of the whole by which a fit may miss its points and still count as exact."""


@dataclass(frozen=True)
class Growth:
    """The parts of a figure at the largest value of an axis, by how they grow along it."""

    constant: float
    linear: float
    quadratic: float
    miss: float
    """The largest distance between the fit and a point, as a share of the largest figure."""

    @property
    def total(self) -> float:
        """All parts together."""
        return self.constant + self.linear + self.quadratic

    @property
    def exact(self) -> bool:
        """Whether the points lie on the fitted curve."""
        return self.miss <= EXACT


def fit_growth(values: Sequence[float], figures: Sequence[float]) -> Growth:
    """A polynomial through the points: quadratic through three or more, linear through two."""
    largest = max(values)
    whole = max(map(abs, figures)) or 1.0
    scaled = np.array(values, dtype=float) / largest
    powers = np.vander(scaled, min(3, len(set(values))), increasing=True)
    parts, *_ = np.linalg.lstsq(powers, np.array(figures, dtype=float) / whole, rcond=None)
    miss = float(np.max(np.abs(powers @ parts - np.array(figures, dtype=float) / whole)))
    cleaned = [float(part) * whole if abs(part) > EXACT / 10 else 0.0 for part in parts]
    constant, linear, quadratic = (*cleaned, 0.0, 0.0)[:3]
    return Growth(constant, linear, quadratic, miss)


def module_growth(values: Sequence[float], profiles: Sequence[Profile]) -> dict[str, Growth]:
    """The growth of each kind of module's own FLOPs, all phases, the largest first; `layers.*.mlp` is all layers' mlp."""
    figures = [own_flops(profile) for profile in profiles]
    names = {name: None for one in figures for name in one}
    found = {name: fit_growth(values, [one.get(name, 0) for one in figures]) for name in names}
    worth_showing = {name: growth for name, growth in found.items() if growth.total}
    return dict(sorted(worth_showing.items(), key=lambda item: -item[1].total))


def own_flops(profile: Profile) -> Mapping[str, int]:
    """FLOPs of forward and backward that ran in each module itself, modules that differ only by a number together."""
    found: dict[str, int] = {}
    for node in profile.walk():
        own = node.own
        flops = own.forward.flops + own.backward.flops + own.recompute.flops
        if flops:
            name = re.sub(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)", "*", node.path)
            found[name] = found.get(name, 0) + flops
    return found
