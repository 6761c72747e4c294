"""The head of the report page: the verdict in one line, and the figures that a reader asks for first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ... import units
from ...results.job import Job
from ...results.node import Node
from ...results.profile import Profile
from ..limits.roofline import ceilings_for, profile_limit
from ..limits.utilization import unit_of
from .page_step import BACK, step_of

CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")
"""Classes that only hold other modules: to name one says little."""
NO_LIMITS: Mapping[str, float] = {}
COUNTS, TIME = "counts", "time"
"""What a figure is about, so that doubts about it stand beside it."""


def tiles(profile: Profile, on: str | None = None) -> list[dict[str, str]]:
    """The largest figures: label, value, what it is made of, and what doubts touch it."""
    found = [_tile("Parameters", units.si(profile.params), _trainable(profile), COUNTS)]
    found.append(_tile("Forward FLOPs", units.si(profile.flops), f"{units.si(profile.macs)} MACs", COUNTS))
    if profile.trained:
        again = profile.recompute.flops
        note = f"and {units.si(again)} recomputed" if again else "as autograd ran it"
        found.append(_tile("Backward FLOPs", units.si(profile.backward.flops), note, COUNTS))
    if profile.peak_bytes:
        found.append(_tile("Peak memory", units.size(profile.peak_bytes), _largest_kinds(profile), COUNTS))
    sent = sum(row.wire_bytes for row in profile.comm)
    if sent:
        found.append(_tile("Sent to other ranks", units.size(sent), "a step, on a ring", COUNTS))
    return found + _times(profile, on)


def _times(profile: Profile, on: str | None) -> list[dict[str, str]]:
    unit = unit_of(profile)
    limit, ceilings = profile_limit(profile, on), ceilings_for(profile, on)
    least = []
    if limit and ceilings:
        least.append(_tile("Limit", units.seconds(limit), f"least time of a {unit} on {ceilings.name}", ""))
    if on is not None:
        return least
    stat = profile.timing.whole
    if stat is None:
        return []
    runs = len(stat.samples)
    note = f"median of {runs} runs" if runs > 1 else "one run"
    found = [_tile(f"Time of a {unit}", units.seconds(stat.median), note, TIME)]
    if profile.throughput:
        tokens = profile.tokens_per_second
        rate, of = (tokens, "tokens") if tokens else (profile.throughput, "samples")
        found.append(_tile("Throughput", units.si(rate), f"{of} per second", TIME))
    if profile.mfu is not None:
        found.append(_tile("MFU", units.percent(profile.mfu), "model FLOPs of the dense peak", TIME))
    return found + least


def _tile(label: str, value: str, note: str, touches: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note, "touches": touches}


def _trainable(profile: Profile) -> str:
    whole = profile.whole
    if whole is None or whole.params != profile.params:
        return f"on this rank{f', of {units.si(whole.params)}' if whole else ''}"
    if profile.active_params not in (None, profile.params):
        return f"{units.si(profile.active_params)} active: one token passes them"
    if profile.trainable_params == profile.params:
        return "all trainable" if profile.trained else ""
    return f"{units.si(profile.trainable_params)} trainable"


def _largest_kinds(profile: Profile) -> str:
    """The two kinds that hold most at the peak."""
    first = profile.largest_at_peak[:2]
    return ", ".join(f"{kind} {size / profile.peak_bytes:.0%}" for kind, size in first if profile.peak_bytes)


def job_verdict(job: Job) -> str:
    """Which rank the others wait for, or where the ranks differ most."""
    uneven = job.imbalance("time")
    if job.slowest is not None and uneven and uneven > 0.01:
        return f"rank {job.slowest} of {job.size} is the slowest, {uneven:.0%} above the mean"
    return f"{len(job.ranks)} of {job.size} ranks, which take the same time" if uneven is not None else ""


def verdict(profile: Profile, on: str | None = None, limits: Mapping[str, float] = NO_LIMITS) -> str:
    """Where most of the time goes, in one line; if nothing was timed on that device, most of its `limits` by path, or of the work."""
    size, whole, of = _measure(profile, limits, timed=on is None)
    sizes = _by_name(profile.root, size)
    shares = {name: min(1.0, sum(parts) / whole) for name, parts in sizes.items()} if whole else {}
    telling = {name: share for name, share in shares.items() if 0.2 <= share <= 0.9}
    if not telling:
        return ""
    name = max(telling, key=lambda one: telling[one])
    number = len(sizes[name])
    return f"{telling[name]:.0%} of the {of} {name}{f' x {number}' if number > 1 else ''}"


def _measure(
    profile: Profile, limits: Mapping[str, float], *, timed: bool
) -> tuple[Callable[[Node], float], float | None, str]:
    """What a module takes, what the whole takes, and the words for it; of what the page's rows show first."""
    step = step_of(profile)
    if not timed and limits.get(profile.root.path):
        return (lambda node: limits.get(node.path, 0.0)), limits[profile.root.path], "limit in"
    if not (timed and step.whole):
        return (lambda node: node.flops), profile.flops, "forward FLOPs in" if profile.trained else "FLOPs in"
    return (
        (lambda node: step.seconds.get(node.path, 0.0)),
        step.whole,
        f"{step.word} in{' the forward of' if BACK in step.seconds else ''}",
    )


def _holders_of_blocks(root: Node, size: Callable[[Node], float]) -> set[int]:
    """Ids of nodes that are mostly stacks of blocks: what those are made of says more than their names."""
    holders: set[int] = set()
    for node in reversed([*root.walk()]):  # children first, at any depth
        stacks = (child for child in node.children if id(child) in holders or _is_stack(child))
        if sum(map(size, stacks)) > size(node) / 2:
            holders.add(id(node))
    return holders


def _is_stack(node: Node) -> bool:
    """Whether it only holds other modules, and those are blocks."""
    return node.kind in CONTAINERS and any(block.children for block in node.children)


def _by_name(root: Node, size: Callable[[Node], float]) -> Mapping[str, list[float]]:
    """The sizes of the modules of each last name, numbers left out; a module inside one of the same name is not counted again."""
    found: dict[str, list[float]] = {}
    holders = _holders_of_blocks(root, size)
    stack: list[tuple[Node, frozenset[str]]] = [(child, frozenset()) for child in root.children]
    while stack:
        node, above = stack.pop()
        named = not node.name.isdigit() and node.name not in above and node.kind not in CONTAINERS
        named = named and id(node) not in holders
        if named:
            found.setdefault(node.name, []).append(size(node))
        inside = above | {node.name} if named else above
        stack.extend((child, inside) for child in node.children)
    return found
