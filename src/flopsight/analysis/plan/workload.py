"""One micro-batch on one device as parts that repeat: what one and two blocks take, extended to all of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...results.costs import Cost, OpRow
from ...results.memory_curve import MemoryCurve
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, RECOMPUTE
from ..limits.step_load import expert_shares
from ..limits.utilization import model_flops, rows_of

LASTING = ("parameters", "buffers", "optimizer", "inputs", "gradients")
"""Kinds of memory that the arithmetic of a plan knows by itself."""


@dataclass(frozen=True)
class Part:
    """The work of one block, or of what is outside all blocks, for one micro-batch on one device."""

    rows: tuple[OpRow, ...] = ()
    params: int = 0
    experts: int = 0
    """Those of `params` in experts that a router chooses."""
    saved: int = 0
    """Bytes kept for backward."""
    model_flops: float = 0.0
    """As MFU counts them."""
    count: int = 1
    """How many such blocks the model has."""

    def cost(self, phase: str) -> Cost:
        """What the rows of a phase cost."""
        return sum((row.cost for row in self.rows if row.phase == phase), start=Cost())


class Kept(Protocol):
    """Bytes of a compiled step: kept for backward, the most at once, and the most after all that was kept has been read."""

    @property
    def kept(self) -> int: ...  # noqa: D102

    @property
    def peak(self) -> int: ...  # noqa: D102

    @property
    def after(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Workload:
    """A micro-batch in training: blocks, the rest, and what is alive while it runs."""

    blocks: tuple[Part, ...]
    rest: Part
    alive: int
    """Bytes alive at most beside parameters and gradients, when every block has kept what it keeps for backward."""
    alive_in_block: int
    """The same while one block runs backward alone."""
    handed_on: int
    """Bytes that a block hands to the next."""
    samples: int
    tokens: int | None = None
    ends: tuple[int, int] | None = None
    """Parameters outside the blocks that a pipeline's first stage holds, embeddings, and its last; tied ones are in both."""
    compiled: bool = False
    """Whether what is kept and alive is that of a compiled step."""
    kept_in_block: int = 0
    """Of `alive_in_block`, bytes kept for backward, if the model was counted whole."""
    standing: Mapping[str, int] = field(default_factory=dict)
    """Bytes of inputs and buffers, which stand from the beginning to the end."""
    experts_a_token: int = 1
    """Experts of a block that a router sends a token to."""

    @property
    def depth(self) -> int:
        """Blocks of the model."""
        return sum(part.count for part in self.blocks)

    @property
    def params(self) -> int:
        """Parameters of the model."""
        return self.rest.params + sum(part.count * part.params for part in self.blocks)

    @property
    def experts(self) -> int:
        """Those of them in experts."""
        return self.rest.experts + sum(part.count * part.experts for part in self.blocks)

    @property
    def saved(self) -> int:
        """Bytes kept for backward by the whole model."""
        return self.rest.saved + sum(part.count * part.saved for part in self.blocks)

    @property
    def model_flops(self) -> float:
        """FLOPs of the whole model as MFU counts them."""
        return self.rest.model_flops + sum(part.count * part.model_flops for part in self.blocks)

    def cost(self, phase: str) -> Cost:
        """What a phase of the whole model costs."""
        return sum((part.cost(phase) * part.count for part in self.blocks), start=self.rest.cost(phase))


def extended(
    base: Profile, longer: Sequence[Profile], counts: Sequence[int], homes: Sequence[str], handed_on: int
) -> Workload | None:
    """The whole model from a count with one block of each kind, and for each kind a count with one block more.

    `homes` are the lists that hold the blocks. None if the counts do not differ by a block's work alone.
    """
    one = _part(base)
    blocks = []
    rest: Part | None = one
    for profile, count in zip(longer, counts, strict=True):
        block = _less(_part(profile), one)
        if block is None or rest is None:
            return None
        blocks.append(replace(block, count=count))
        rest = _less(rest, block)
    if rest is None:
        return None
    first, after = alive(base, homes)
    more = sum((count - 1) * (alive(profile, homes)[0] - first) for profile, count in zip(longer, counts, strict=True))
    in_block = max(after, min(first, first - rest.saved))
    whole = max(first + more, after)
    return Workload(
        tuple(blocks), rest, whole, in_block, handed_on, base.batch_size or 1, base.tokens, _ends(base, homes),
        standing=_standing(base),
    )  # fmt: skip


def compiled(work: Workload, base: Kept, longer: Sequence[Kept]) -> Workload:
    """The same work with the memory of compiled steps: of one block of each kind, and for each kind of one more."""
    more = [one.kept - base.kept for one in longer]
    blocks = tuple(replace(part, saved=saved) for part, saved in zip(work.blocks, more, strict=True))
    rest = replace(work.rest, saved=base.kept - sum(more))
    whole = base.peak + sum((part.count - 1) * part.saved for part in blocks)
    in_block = max(base.after, base.peak - rest.saved)
    return replace(work, blocks=blocks, rest=rest, alive=max(whole, base.after), alive_in_block=in_block, compiled=True)


def counted_whole(profile: Profile, paths: Iterable[str], handed_on: int) -> Workload:
    """The workload of a model whose blocks all differ, from one count of all of it."""
    paths = tuple(paths)
    nodes = [profile[path] for path in paths if path in profile]
    blocks = []
    rest = _part(profile)
    flops, chosen = model_flops(profile), expert_shares(profile)
    work = sum(node.total.total.macs for node in (profile.root,)) or 1
    for node in nodes:
        rows = tuple(row for each in node.walk() for row in rows_of(each))
        share = node.total.total.macs / work
        part = Part(_merged(rows), node.params, _experts(node, chosen), node.activation_bytes, share * flops)
        blocks.append(part)
        rest = _less(rest, part) or replace(rest, params=max(0, rest.params - part.params))
    in_block, kept = _beside_gradients(profile)
    return Workload(
        tuple(blocks), rest, max(alive(profile)), in_block, handed_on, profile.batch_size or 1, profile.tokens,
        _ends(profile, paths), kept_in_block=kept, standing=_standing(profile),
    )  # fmt: skip


def _standing(profile: Profile) -> dict[str, int]:
    return {kind: profile.at_peak.get(kind, 0) for kind in ("inputs", "buffers")}


def _ends(profile: Profile, blocks: Iterable[str]) -> tuple[int, int]:
    """Parameters outside the blocks: of embeddings, and of all else."""
    within = tuple(f"{path}." for path in blocks)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for node in profile.walk():
        if not f"{node.path}.".startswith(within):
            held = first if "Embedding" in node.kind else last
            held.update({parameter.key: parameter.numel for parameter in node.parameters})
    return sum(first.values()), sum(last.values())


def alive(profile: Profile, homes: Sequence[str] = ()) -> tuple[int, int]:
    """Bytes alive at most beside what lasts and gradients: until the last block's backward is done, and after it.

    Up to then every block holds what it keeps for backward, so this part grows with the depth; the other does not.
    """
    curve = profile.memory_curve
    if curve is None:
        return sum(size for kind, size in profile.at_peak.items() if kind not in LASTING), 0
    columns = [column for kind, column in curve.kinds.items() if kind not in LASTING]
    totals = [sum(values) for values in zip(*columns, strict=True)]
    end = _end_of_last_block(curve, homes)
    return max(totals[:end], default=0), max(totals[end:], default=0)


def _beside_gradients(profile: Profile) -> tuple[int, int]:
    """Bytes that stand beside all gradients at the moment when both together are most, and those of them kept for backward."""
    curve = profile.memory_curve
    if curve is None:
        return max(alive(profile)), profile.activation_bytes
    gradients = curve.kinds.get("gradients", (0,) * len(curve.at))
    columns = [column for kind, column in curve.kinds.items() if kind not in LASTING]
    both = [sum(values) for values in zip(gradients, *columns, strict=True)]
    most = max(both, default=0)
    beside = max(0, most - max(gradients, default=0))
    kept = curve.kinds["activations"][both.index(most)] if "activations" in curve.kinds else 0
    return beside, min(beside, kept)


def _end_of_last_block(curve: MemoryCurve, homes: Sequence[str]) -> int:
    """The number of points until the block that ran last has run backward; all points if none is seen."""
    last = ""
    end = len(curve.at)
    for place, (path, phase) in enumerate(zip(curve.modules, curve.phases, strict=True)):
        if phase not in (BACKWARD, RECOMPUTE):
            continue
        home = next((one for one in homes if path.startswith(f"{one}.")), None)
        block = f"{home}.{path.removeprefix(f'{home}.').partition('.')[0]}" if home is not None else ""
        last = last or block
        if last and block == last:
            end = place + 1
    return end


def _part(profile: Profile) -> Part:
    rows = _merged(row for node in profile.walk() for row in rows_of(node))
    experts = _experts(profile.root, expert_shares(profile))
    return Part(rows, profile.params, experts, profile.activation_bytes, model_flops(profile))


def _experts(node: Node, chosen: Container[int]) -> int:
    """Parameters of a module that a router chooses."""
    return sum(parameter.numel for parameter in node.distinct_parameters if parameter.key in chosen)


def _key(row: OpRow) -> tuple[object, ...]:
    return row.op, row.phase, row.status, row.shapes, row.dtype, row.kind, row.layout


def _merged(rows: Iterable[OpRow]) -> tuple[OpRow, ...]:
    """Equal calls of all modules as one row."""
    found: dict[tuple[object, ...], OpRow] = {}
    for row in rows:
        key = _key(row)
        known = found.get(key)
        found[key] = row if known is None else replace(row, calls=known.calls + row.calls, cost=known.cost + row.cost)
    return tuple(found.values())


def _less(whole: Part, part: Part) -> Part | None:
    """What is left of the whole without a part; None if the part has work that the whole has not."""
    taken: Mapping[tuple[object, ...], OpRow] = {_key(row): row for row in part.rows}
    rows = []
    for row in whole.rows:
        other = taken.get(_key(row))
        if other is None:
            rows.append(row)
            continue
        if other.calls > row.calls or other.cost.bytes > row.cost.bytes or other.cost.macs > row.cost.macs:
            return None
        if other.calls < row.calls:
            rows.append(replace(row, calls=row.calls - other.calls, cost=row.cost + other.cost * -1))
    if not taken.keys() <= {_key(row) for row in whole.rows}:
        return None
    return Part(
        tuple(rows),
        whole.params - part.params,
        whole.experts - part.experts,
        whole.saved - part.saved,
        whole.model_flops - part.model_flops,
    )
