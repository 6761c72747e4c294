"""What changed between two profiles: figures of the whole, and modules.

Costs, parameters and bytes are exact, so any difference is a change. Times are compared only if both profiles come
from the same device, and count as changed only beyond a tolerance and their own spread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path

from .. import units
from ..errors import InputError
from ..results.in_notebooks import InNotebooks
from ..results.job import Job
from ..results.node import MOST_LETTERS, Node, outermost
from ..results.profile import Profile
from ..results.timings import Stat
from .figures import BOOK, Figure, figure, shown


@dataclass(frozen=True)
class Change:
    """One figure before and after; None if a profile does not have it."""

    name: str
    before: float | None
    after: float | None
    changed: bool = True

    @property
    def growth(self) -> float | None:
        """(after - before) / before; infinite from nothing, None if one of the two is not known."""
        if self.before is None or self.after is None:
            return None
        if not self.before:
            return float("inf") if self.after else 0.0
        return (self.after - self.before) / self.before


@dataclass(frozen=True)
class ModuleChange:
    """A module whose own figures, class or shapes are not what they were; its submodules have rows of their own."""

    path: str
    kind: str
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison(InNotebooks):
    """Two profiles side by side."""

    before: Profile
    """The older profile."""
    after: Profile
    """The newer one."""
    figures: tuple[Change, ...]
    """Figures of the whole model, each with both values."""
    modules: tuple[ModuleChange, ...]
    """Modules in both that changed, in the order of the model."""
    added: tuple[Node, ...]
    """Modules that are new, each with its submodules; only the topmost is named."""
    removed: tuple[Node, ...]
    """Modules that are gone, like `added`."""
    why_no_times: str = ""
    """Why times are not compared, if they are not."""
    counterparts: Mapping[str, str] = field(default_factory=dict)
    """For every module that is in both, its path after and its path before: an insertion moves those that follow."""

    @property
    def same(self) -> bool:
        """Whether nothing changed."""
        return not (self.modules or self.added or self.removed or any(change.changed for change in self.figures))

    def __getitem__(self, name: str) -> Change:
        figure(name)
        return next(change for change in self.figures if change.name == name)

    def render(self, format: str = "text") -> str:
        """The comparison as text; with `format="markdown"` for a pull request."""
        from ..render.comparison import render

        return render(self, format)

    @property
    def one_line(self) -> str:
        """How much changed, in one line."""
        figures = sum(change.changed for change in self.figures)
        changed = (
            f"{figures} figures, {len(self.modules)} modules changed, {len(self.added)} new, {len(self.removed)} gone"
        )
        return "nothing changed" if self.same else changed

    def __repr__(self) -> str:
        return f"<Comparison of {self.before.root.kind} and {self.after.root.kind}: {self.one_line}>"[:MOST_LETTERS]

    def to_html(self, path: str | Path) -> Path:
        """Write a page to `path` that shows what changed, ranked by what it weighs."""
        from ..files.whole_files import write_text
        from ..render.html import render_comparison

        return write_text(path, render_comparison(self))

    def __str__(self) -> str:
        return self.render()


def compare(before: Profile | Job, after: Profile | Job, tolerance: float = 0.05) -> Comparison:
    """What is different in `after` from `before`; times count as changed beyond `tolerance` and the spread of their samples."""
    before, after = (given.model if isinstance(given, Job) else given for given in (before, after))
    for name, given in (("before", before), ("after", after)):
        if not isinstance(given, Profile):
            kind = type(given).__name__
            raise InputError(f"{name} must be a profile, not {kind}. One in a file is read by flopsight.load(path).")
    why = _why_no_times(before, after)
    pairs = matched(before, after)
    changes = (_module(old, new) for old, new in pairs)
    return Comparison(
        before,
        after,
        figures=tuple(_figure(known, before, after, tolerance, why) for known in shown("diff")),
        modules=tuple(change for change in changes if change.changes or change.notes),
        added=_topmost(after, {id(new) for _, new in pairs}),
        removed=_topmost(before, {id(old) for old, _ in pairs}),
        why_no_times=why,
        counterparts={new.path: old.path for old, new in pairs},
    )


WEIGHED = ("step_flops", "params", "activation_bytes")
"""The figures by which differences are weighed."""


@dataclass(frozen=True)
class Difference:
    """A module that is new, gone or changed: by how much, and what that weighs."""

    module: Node | ModuleChange
    verb: str
    """`added`, `removed` or `changed`."""
    more: tuple[float, ...]
    """What it has more of each figure in `WEIGHED`: new and removed modules with their submodules, others by themselves."""
    shares: tuple[float, ...]
    """`more` as shares of the whole model's figures."""

    @property
    def weight(self) -> float:
        """The largest of the shares, with its sign."""
        return max(self.shares, key=abs)


def differences(comparison: Comparison) -> list[Difference]:
    """Every difference, the heaviest first."""
    old, new = comparison.before.nodes, comparison.after.nodes

    def weighed(module: Node | ModuleChange, verb: str, more: Iterable[float]) -> Difference:
        parts = tuple(more)
        return Difference(module, verb, parts, shares(comparison, parts))

    found = [weighed(node, "added", (_value(key, node) for key in WEIGHED)) for node in comparison.added]
    found += [weighed(node, "removed", (-_value(key, node) for key in WEIGHED)) for node in comparison.removed]
    for module in comparison.modules:
        one, other = old[comparison.counterparts[module.path]], new[module.path]
        more = (_value(key, other, own=True) - _value(key, one, own=True) for key in WEIGHED)
        found.append(weighed(module, "changed", more))
    return sorted(found, key=lambda difference: -abs(difference.weight))


def shares(comparison: Comparison, more: Iterable[float]) -> tuple[float, ...]:
    """Differences in the `WEIGHED` figures as shares of those of the larger of both models."""
    roots = comparison.before.root, comparison.after.root
    return tuple(
        value / max(1, *(_value(key, root) for root in roots)) for key, value in zip(WEIGHED, more, strict=True)
    )


def _value(key: str, node: Node, *, own: bool = False) -> float:
    read = BOOK[key].of_own if own else BOOK[key].of_node
    return (read(node) if read else None) or 0


def parse_allowed(texts: Iterable[str]) -> dict[str, float]:
    """`["flops:0%", "latency:10%"]` as the growth allowed for each figure."""
    allowed = {}
    for text in texts:
        name, colon, share = text.partition(":")
        if not colon:
            raise InputError(f"{text!r} is not a limit. Write it like flops:0% or latency:10%.")
        allowed[figure(name.strip()).key] = units.parse_share(share)
    return allowed


def violations(comparison: Comparison, allowed: Mapping[str, float]) -> list[str]:
    """One sentence for every figure that got worse by more than is allowed, or that cannot be compared."""
    broken = []
    for name, most in allowed.items():
        known, change = figure(name), comparison[name]
        growth = change.growth
        if known.is_time and comparison.why_no_times:
            broken.append(f"{name} cannot be compared: {comparison.why_no_times}.")
        elif growth is None:
            broken.append(f"{name} cannot be compared: one of the profiles does not have it.")
        elif (-growth if known.more_is_better else growth) > most:
            assert change.before is not None and change.after is not None  # noqa: PT018
            verb = "fell" if known.more_is_better else "grew"
            by = "from nothing" if growth == float("inf") else f"by {abs(growth):.2%}"
            values = f"{known.text(change.before)} to {known.text(change.after)}"
            broken.append(f"{name} {verb} {by}, {values}; allowed is {most:.2%}.")
    return broken


def _figure(known: Figure, before: Profile, after: Profile, tolerance: float, why_no_times: str) -> Change:
    change = Change(known.key, known.read(before), known.read(after))
    if not known.is_time:
        return replace(change, changed=change.before != change.after)
    room = max(tolerance, _noise(before) + _noise(after))
    return replace(change, changed=not why_no_times and change.growth is not None and abs(change.growth) > room)


def _noise(profile: Profile) -> float:
    """The largest relative spread among the profile's times."""
    stats = (profile.timing.forward, profile.timing.backward, profile.timing.step)
    return max((stat.spread for stat in stats if isinstance(stat, Stat)), default=0.0)


def _why_no_times(before: Profile, after: Profile) -> str:
    a, b = before.environment, after.environment
    here, there = a.device_name or a.device, b.device_name or b.device
    if here != there:
        return f"before ran on {here or 'an unknown device'}, after on {there or 'an unknown device'}"
    if not (before.timing.forward and after.timing.forward):
        return "not both were timed"
    return ""


def _module(old: Node, new: Node) -> ModuleChange:
    figures = [
        Change(known.key, before, after)
        for known in shown("module")
        if known.of_own and (before := known.of_own(old)) != (after := known.of_own(new))
    ]
    notes = []
    if old.kind != new.kind:
        notes.append(f"{old.kind} became {new.kind}")
    if old.output_shapes != new.output_shapes:
        notes.append(f"output {_shapes(old)} became {_shapes(new)}")
    return ModuleChange(new.path, new.kind, tuple(figures), tuple(notes))


def _shapes(node: Node) -> str:
    return ", ".join(units.shape(shape) for shape in node.output_shapes) or "nothing"


def _topmost(profile: Profile, paired: Collection[int]) -> tuple[Node, ...]:
    """Modules that the other profile lacks, without what is below them; a wrapped model counts as its wrapper."""
    plain = {id(node) for node in profile.plain_paths.values()}
    return tuple(outermost(profile.root, lambda node: id(node) in plain and id(node) not in paired))


def matched(before: Profile, after: Profile) -> list[tuple[Node, Node]]:
    """Pairs of modules that are the same one, in the order of `after`.

    If no name but the root's is in both, one of the models is wrapped: then names without the wrappers' count.
    """
    if before.nodes.keys() & after.nodes.keys() - {""}:
        return list(_down(before.root, after.root))
    old, new = before.plain_paths, after.plain_paths
    return [(old[path], node) for path, node in new.items() if path in old]


def _down(one: Node, other: Node) -> Iterator[tuple[Node, Node]]:
    waiting = [(one, other)]
    while waiting:
        pair = waiting.pop()
        yield pair
        waiting.extend(reversed(_children(*pair)))


def _children(one: Node, other: Node) -> list[tuple[Node, Node]]:
    """The children of two modules that belong together."""
    old = {child.name: child for child in one.children}
    stacks = [[child for child in node.children if child.name.isdecimal()] for node in (one, other)]
    if len(stacks[0]) != len(stacks[1]):
        moved = {id(new): was for was, new in _aligned(*stacks)}
    else:
        moved = {id(new): old[new.name] for new in stacks[1] if new.name in old}
    named = ((moved.get(id(new)) if new.name.isdecimal() else old.get(new.name), new) for new in other.children)
    return [(was, new) for was, new in named if was is not None]


def _aligned(old: Sequence[Node], new: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Two stacks of blocks, one of which has more: like blocks in order are the same; in between, those of one class."""
    matcher = SequenceMatcher(
        None, [_likeness(node) for node in old], [_likeness(node) for node in new], autojunk=False
    )
    for what, begin, end, start, stop in matcher.get_opcodes():
        if what in ("equal", "replace"):
            pairs = zip(old[begin:end], new[start:stop], strict=False)
            yield from (pair for pair in pairs if what == "equal" or pair[0].kind == pair[1].kind)


def _likeness(node: Node) -> tuple[str, int, int]:
    return node.kind, node.params, sum(1 for _ in node.walk())
