"""What ranks cost each other: collectives that nothing hides, work that is done twice, one rank that holds up the others."""

from __future__ import annotations

from collections.abc import Iterator

from ... import units
from ...results.job import Job
from .finding import Finding
from .scene import Scene, paths

IMBALANCED = 0.05
"""How much more than the mean the busiest rank may do before it is worth a sentence."""


def collectives(scene: Scene) -> Iterator[Finding]:
    """Communication between ranks that takes a part of the step."""
    places = [(node, row) for node in scene.profile.walk() for row in node.comm if row.bytes and not row.setup]
    if not places or scene.step is None:
        return
    rows = [row for _, row in places]
    sent = sum(row.wire_bytes for row in rows)
    exposed = [row.exposed for row in rows if row.exposed is not None] if scene.measured else []
    link = scene.ceilings.link if scene.ceilings else None
    if exposed:
        win, said = sum(exposed), "nothing else runs for"
    elif link:
        win, said = sent / link, "over the link they take at least"
    else:
        return
    win = min(win, scene.step)
    if not scene.worth(win):
        return
    yield Finding(
        "collectives",
        "Ranks wait for each other's data",
        paths(node for node, _ in places),
        f"collectives send {units.size(sent)} a step, and {said} {units.seconds(win)} of {units.seconds(scene.step)}",
        "overlap them with compute (prefetching, larger buckets), or shard along another dimension",
        win,
    )


def redundant_work(scene: Scene) -> Iterator[Finding]:
    """Model-parallel ranks that repeat each other's work: a layer that is not sharded."""
    profile = scene.profile
    world, whole = profile.world, profile.whole
    parts = world.model_parallel // world.pipeline  # stages have layers of their own
    if parts < 2 or whole is None or not whole.macs or not profile.macs or scene.step is None:
        return
    win = (1 - whole.macs / (parts * profile.macs)) * scene.step
    if not scene.worth(win):
        return
    heaviest = max((node for node in profile.walk() if not node.children), key=lambda node: node.own.macs)
    yield Finding(
        "redundant",
        "Model-parallel ranks repeat work",
        (heaviest.path,),
        f"{parts} ranks do {units.si(profile.macs, 'MAC')} each, the whole model has {units.si(whole.macs, 'MAC')}",
        "shard the layers that every rank runs whole, first the output head",
        win,
    )


def imbalance(job: Job) -> Iterator[Finding]:
    """One rank with more work than the mean holds up all others."""
    work = {rank: profile.root.total.total.flops for rank, profile in job.ranks.items()}
    if len(work) < 2:
        return
    mean, most = sum(work.values()) / len(work), max(work.values())
    if not mean or most / mean - 1 < IMBALANCED:
        return
    slowest = max(work, key=lambda rank: work[rank])
    step = Scene(job.ranks[slowest]).step
    win = step * (1 - mean / most) if step else 0.0
    yield Finding(
        "imbalance",
        "One rank has more work than the others",
        ("",),
        f"rank {slowest} does {units.si(most, 'FLOP')}, the mean of {len(work)} ranks is {units.si(mean, 'FLOP')}",
        "move layers between stages, or split the heaviest one",
        win,
        win / step if step else 0.0,
    )
