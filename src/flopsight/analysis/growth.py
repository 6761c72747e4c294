"""How cost grows along one axis of a sweep: constant, linear and quadratic part, for every kind of module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..results.costs import summed
from ..results.node import without_numbers
from ..results.profile import Profile

EXACT = 1e-6
"""Share of the whole by which a fit may miss its points and still count as exact."""
CURVES = ((0,), (0, 1), (1, 2), (0, 1, 2))
"""The powers of the curves that are tried, the simplest first."""


@dataclass(frozen=True)
class Growth:
    """The parts of a figure at the largest value of an axis, by how they grow along it."""

    constant: float
    linear: float
    quadratic: float
    miss: float
    """The largest distance between the fit and a point, as a share of the largest figure."""
    spare: int = 0
    """Points beyond as many as the curve has parts: only they can confirm it."""

    @property
    def total(self) -> float:
        """All parts together."""
        return self.constant + self.linear + self.quadratic

    @property
    def plausible(self) -> bool:
        """Whether the parts can be read as shares: none is negative, or further points confirm the curve."""
        return self.exact or min(self.constant, self.linear, self.quadratic) >= 0

    @property
    def on_curve(self) -> bool:
        """Whether the points lie on the fitted curve; those that fix it always do."""
        return self.miss <= EXACT

    @property
    def exact(self) -> bool:
        """Whether points that the curve was not drawn through lie on it too."""
        return self.on_curve and self.spare > 0


def fit_growth(values: Sequence[float], figures: Sequence[float]) -> Growth:
    """The simplest curve through the points, those without negative parts first; the nearest curve if none goes through."""
    different = len(set(values))
    tried = [_fitted(values, figures, powers) for powers in CURVES if len(powers) <= different]
    found = [one for one in tried if one.on_curve] or tried[-1:]
    return next((one for one in found if one.plausible), found[0])


def _fitted(values: Sequence[float], figures: Sequence[float], powers: Sequence[int]) -> Growth:
    """The curve of these powers with the least squared distances, by fractions: nothing is rounded."""
    largest = Fraction(max(values))
    rows = [[(Fraction(value) / largest) ** power for power in powers] for value in values]
    goals = [Fraction(figure) for figure in figures]
    columns = list(zip(*rows, strict=True))
    normal = [[_dot(one, other) for other in columns] + [_dot(one, goals)] for one in columns]
    parts = _solved(normal)
    whole = max(map(abs, goals)) or Fraction(1)
    miss = max(abs(_dot(row, parts) - goal) for row, goal in zip(rows, goals, strict=True)) / whole
    kept = {
        power: float(part)
        for power, part in zip(powers, parts, strict=True)
        if abs(part) > whole * Fraction(EXACT / 10)
    }
    constant, linear, quadratic = (kept.get(power, 0.0) for power in range(3))
    return Growth(constant, linear, quadratic, float(miss), len(set(values)) - len(kept))


def _dot(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def _solved(rows: list[list[Fraction]]) -> list[Fraction]:
    """The solution of linear equations whose last column is the right side; the normal equations always have one."""
    for place in range(len(rows)):
        pivot = rows[place] = [entry / rows[place][place] for entry in rows[place]]
        for other in range(len(rows)):
            if other != place:
                rows[other] = [a - rows[other][place] * b for a, b in zip(rows[other], pivot, strict=True)]
    return [row[-1] for row in rows]


def module_growth(values: Sequence[float], profiles: Sequence[Profile]) -> dict[str, Growth]:
    """The growth of each kind of module's own FLOPs, all phases, the largest first; `layers.*.mlp` is all layers' mlp."""
    figures = [own_flops(profile) for profile in profiles]
    names = {name: None for one in figures for name in one}
    found = {name: fit_growth(values, [one.get(name, 0) for one in figures]) for name in names}
    worth_showing = {name: growth for name, growth in found.items() if growth.total}
    return dict(sorted(worth_showing.items(), key=lambda item: -item[1].total))


def own_flops(profile: Profile) -> Mapping[str, int]:
    """FLOPs of forward and backward that ran in each module itself, modules that differ only by a number together."""
    own = ((node.path, node.own.total.flops - node.own.optimizer.flops) for node in profile.walk())
    return summed((without_numbers(path), flops) for path, flops in own if flops)
