"""Memory and work that the step does not need: modules that never run, frozen layers, recompute."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator

from ... import units
from ...results.caveats import CutOff, Raised
from ...results.node import Node
from ...results.records import BACKWARD, RECOMPUTE, Parameter
from .finding import Finding
from .scene import Scene, paths
from .wide_dtypes import WIDE, narrow_dtype

FULL = 0.7
"""Share of the device's memory from which on saving some is worth a sentence."""
ROOM = 0.9
"""Share of the device's memory that a step may take."""
MOST_PARTS = 3
ANY_BATCH = ("parameters", "gradients", "optimizer", "buffers")
"""Kinds of memory that are as large for any batch."""
WORTH = 0.001
"""Share of the model's parameters from which on unused ones are worth a sentence."""
CUT_SHORT = CutOff, Raised
"""Caveats of a step that did not end: a whole one may reach more."""


def too_large(scene: Scene) -> Iterator[Finding]:
    """A step that needs more memory than the device has."""
    profile, memory = scene.profile, scene.ceilings.memory if scene.ceilings else None
    if not memory or not profile.peak_bytes or profile.peak_bytes <= memory:
        return
    shown = ", ".join(f"{what} {units.size(size)}" for what, size in profile.largest_at_peak[:MOST_PARTS])
    moves = [f"shard it over {-(-profile.peak_bytes // memory)} devices or more"]
    if profile.trained and profile.activation_bytes > FULL * memory:
        moves.append("checkpoint the blocks whose activations it saves")
    if (profile.batch_size or 1) > 1 and most_samples(scene):
        moves.append("a smaller batch")
    narrow = narrow_dtype(scene)
    if profile.environment.dtype not in WIDE:
        moves += [] if profile.trained else ["quantized weights"]
    elif narrow and not (profile.trained and narrow == "float16"):  # weights in float16 lose small updates
        moves.append(narrow)
    yield Finding(
        "memory",
        "The step does not fit the device's memory",
        ("",),
        f"its peak is {units.size(profile.peak_bytes)}{f' ({shown})' if shown else ''}, the device has {units.size(memory)}",
        ", ".join(moves),
        bytes=profile.peak_bytes - memory,
        blocks=True,
    )


def most_samples(scene: Scene) -> int:
    """The largest batch that fits the device's memory; the present one and more without bound if a size is not known."""
    profile, memory = scene.profile, scene.ceilings.memory if scene.ceilings else None
    if not memory or not profile.peak_bytes or not profile.batch_size:
        return sys.maxsize
    fixed = sum(profile.at_peak.get(kind, 0) for kind in ANY_BATCH)
    each = (profile.peak_bytes - fixed) / profile.batch_size
    return max(0, int((memory - fixed) / each)) if each > 0 else sys.maxsize if fixed <= memory else 0


def unused_modules(scene: Scene) -> Iterator[Finding]:
    """Modules with parameters that no forward reaches: memory, and with training also gradients and optimizer state."""
    if scene.doubted(*CUT_SHORT):
        return
    profile = scene.profile
    used = {p.key for node in profile.walk() if node.called or node.total.total.flops for p in node.parameters}
    idle = [node for node in _topmost_idle(profile.root) if node.params]
    spare = {p.key: p for node in idle for p in node.distinct_parameters if p.key not in used}
    places = [node for node in idle if any(p.key in spare for p in node.distinct_parameters)]
    yield from _unused(scene, "Modules with parameters never ran on these inputs", places, spare.values())


def unread_parameters(scene: Scene) -> Iterator[Finding]:
    """Parameters that no op of the forward reads, in modules that ran; ranks that gather weights read copies of them."""
    if scene.doubted(*CUT_SHORT) or scene.profile.world.size > 1:
        return
    places = [node for node in scene.profile.walk() if node.called and any(p.unread for p in node.parameters)]
    spare = {p.key: p for node in places for p in node.parameters if p.unread}
    yield from _unused(scene, "Modules ran and never read some of their parameters", places, spare.values())


def _unused(scene: Scene, what: str, places: Iterable[Node], spare: Collection[Parameter]) -> Iterator[Finding]:
    elements, all_of_them = sum(p.numel for p in spare), scene.profile.params
    if not spare or elements < WORTH * all_of_them:
        return
    yield Finding(
        "unused",
        what,
        paths(places),
        f"{units.si(elements)} of {units.si(all_of_them)} parameters, {units.percent(elements / all_of_them)}",
        f"remove them if no other input needs them{', or leave them out of the optimizer' if scene.profile.trained else ''}",
        bytes=sum(p.nbytes + p.state_bytes for p in spare),
    )


def _topmost_idle(root: Node) -> Iterator[Node]:
    """Modules that did not run below one that did; not if the module around them may use their weights itself."""
    waiting = [(root, root)]
    while waiting:
        node, parent = waiting.pop()
        if node is root or node.called or node.total.total.flops:
            waiting.extend((child, node) for child in reversed(node.children) if not child.ignored)
        elif not parent.own.forward.macs:
            yield node


def frozen_layers(scene: Scene) -> Iterator[Finding]:
    """Frozen layers at the beginning of the model that save activations and run backward, for a gradient without use."""
    profile = scene.profile
    if not profile.trained:
        return
    leading: list[Node] = []
    for node in profile.walk():
        if any(parameter.trainable for parameter in node.parameters):
            break
        if node.params and not node.children:
            leading.append(node)
    saved = sum(node.own_activation_bytes for node in leading)
    spent = sum(scene.seconds(row) for node in leading for row in node.ops if row.phase in (BACKWARD, RECOMPUTE))
    if not leading or not (saved or spent):
        return
    yield Finding(
        "frozen",
        "Frozen layers before the first trained one take part in backward",
        paths(node for node in leading if node.own_activation_bytes or node.own.backward.flops),
        f"they save {units.size(saved)} and spend {units.seconds(spent)} in backward {scene.basis}",
        "run them under torch.no_grad(), or do not let their inputs require a gradient",
        spent,
        bytes=saved,
    )


def recompute(scene: Scene) -> Iterator[Finding]:
    """Checkpointing if memory would do without it; or a full memory that checkpointing would relieve."""
    profile, memory = scene.profile, scene.ceilings.memory if scene.ceilings else None
    if not profile.trained or not profile.peak_bytes or not memory or profile.peak_bytes > memory:
        return
    rows = [(node, row) for node, row in scene.rows((RECOMPUTE,))]
    if rows:
        spent = sum(scene.seconds(row) for _, row in rows)
        # an op's output is at most what it moves; views of it share the storage
        kept = sum(row.cost.bytes for _, row in rows)
        if profile.peak_bytes + kept > ROOM * memory or not scene.worth(spent):
            return
        yield Finding(
            "recompute",
            "Checkpointing repeats forward work that memory has room to keep",
            paths(node for node, _ in rows),
            f"it takes {units.seconds(spent)} {scene.basis}; the step needs {units.size(profile.peak_bytes)}, without it at most "
            f"{units.size(profile.peak_bytes + kept)} of {units.size(memory)}",
            "checkpoint fewer layers, or none",
            spent,
        )
        return
    if profile.peak_bytes < FULL * memory or profile.activation_bytes < profile.peak_bytes / 2:
        return
    blocks = _repeated(profile.root)
    kept = sum(node.activation_bytes - node.input_bytes for node in blocks)
    if kept <= 0:
        return
    yield Finding(
        "recompute",
        "Saved activations fill the memory",
        paths(blocks),
        f"{units.size(profile.activation_bytes)} of the peak of {units.size(profile.peak_bytes)} are saved for backward, the "
        f"device has {units.size(memory)}",
        f"checkpoint {len(blocks)} blocks, for one more forward of each",
        bytes=kept,
    )


def _repeated(root: Node) -> list[Node]:
    """The largest stack of blocks of one class under one parent."""
    best: list[Node] = []
    for node in root.walk():
        kinds: dict[str, list[Node]] = {}
        for child in node.children:
            kinds.setdefault(child.kind, []).append(child)
        for blocks in kinds.values():
            if len(blocks) > 1 and _saved(blocks) > _saved(best):
                best = blocks
    return best


def _saved(blocks: list[Node]) -> int:
    return sum(node.activation_bytes for node in blocks)
