"""One forward of a model that is served, as a device sees it at any batch: products, weights, and the cache.

The least time leaves out what a fused kernel need not move. Products with weights take the larger of their work at the peak
and their weights at full bandwidth; attention takes the larger of its work and the cache, read once. The parts run one after
the other, so they add up. A layer that multiplies the whole cache with its weights again, as latent attention may, counts
with the new tokens alone: kernels exist that need no more. Of experts that a router chooses, a batch reads as many as are expected to be chosen if all are
equally likely: of E experts with k for each token, E * (1 - (1 - k/E) ** tokens).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ...results.ceilings import Ceilings
from ...results.costs import summed
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import FORWARD, Parameter
from .attended_pairs import APART, is_attention
from .roofline import Roof
from .utilization import rows_of

CACHE = "<cache>"
"""The place of the work that has no weights: attention with the cache, or the update of a state."""


@dataclass(frozen=True)
class Piece:
    """Products with the weights of one module, or all work on the cache."""

    macs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """MACs of one sequence by dtype and op, without those that a causal mask hides."""
    weights: float = 0.0
    """Bytes of weights that are read at any batch."""
    rows: float = 0.0
    """Bytes of tables that are looked up for one sequence."""
    experts: tuple[tuple[float, float], ...] = ()
    """Bytes of experts, and the share of them that one token passes."""
    cache: float = 0.0
    """Bytes of the cache that one sequence reads and writes."""

    def weight_bytes(self, batch: float, tokens: float) -> float:
        """What a batch reads of the weights, each expert if one of its tokens chooses it."""
        chosen: float = sum(size * (1 - (1 - share) ** (batch * tokens)) for size, share in self.experts)
        return self.weights + self.rows * batch + chosen


@dataclass(frozen=True)
class Load:
    """One forward of a batch in pieces that run one after the other."""

    pieces: Mapping[str, Piece]
    """By module; the work without weights is at `CACHE`."""
    tokens: float = 1.0
    """Tokens of each sequence in this forward."""

    @property
    def without_cache(self) -> Load:
        """The products with weights alone."""
        return Load({path: piece for path, piece in self.pieces.items() if path != CACHE}, self.tokens)

    @property
    def macs(self) -> float:
        """MACs of one sequence that a kernel has to do."""
        return sum(macs for piece in self.pieces.values() for macs in piece.macs.values())

    def weight_bytes(self, batch: float) -> float:
        """Bytes of weights that a batch reads."""
        return sum(piece.weight_bytes(batch, self.tokens) for piece in self.pieces.values())

    def cache_bytes(self, batch: float) -> float:
        """Bytes of the cache that a batch reads and writes."""
        return batch * sum(piece.cache for piece in self.pieces.values())

    def least(self, ceilings: Ceilings, batch: float, ways: int = 1, cache_ways: int | None = None) -> Roof | None:
        """The least seconds of a batch, if `ways` devices divide each product evenly; None if a peak is not known.

        They divide the cache too, unless it is divided in fewer ways.
        """
        limit = compute = memory = at_peak = 0.0
        if not ceilings.bandwidth:
            return None
        for piece in self.pieces.values():
            work = 0.0
            for (dtype, op), macs in piece.macs.items():
                peak = ceilings.peak(dtype, op)
                if not peak:
                    return None
                work += 2 * macs * batch / peak / ways
            kept = piece.cache * batch / (cache_ways or ways)
            move = (piece.weight_bytes(batch, self.tokens) / ways + kept) / ceilings.bandwidth
            limit, compute, memory = limit + max(work, move), compute + work, memory + move
            at_peak += work if work >= move else 0.0
        return Roof(limit, compute, memory, at_peak)


def load_of(
    profile: Profile,
    batch: int,
    *,
    tokens: float = 1.0,
    cache_bytes: float = 0.0,
    needed: Mapping[str, float] | None = None,
) -> Load:
    """The load of a forward that was counted at `batch` sequences of `tokens` tokens each.

    `cache_bytes` are what one sequence moves of the cache. Attention that the model's code takes apart counts as a fused kernel
    does it: in the model's dtype. `needed` is the share of a module's attention that a kernel has to do, if a mask hides pairs.
    Of the last product only the last token is needed.
    """
    owners, own_dtype = _owners(profile), profile.environment.dtype
    attended = needed or {}
    shares = expert_shares(profile)
    pieces: dict[str, Piece] = {}
    free: defaultdict[tuple[str, str], float] = defaultdict(float)
    last: Node | None = None
    for node in profile.walk():
        macs = _macs(node, own_dtype, batch, attended.get(node.path, 1.0))
        repeats = rows_in(node) / (batch * tokens)
        held = [parameter for parameter in owners.get(node.path, ()) if parameter.read_bytes != 0]
        packed = node.packed_bytes if node.calls else 0
        if held or packed:
            if tokens == 1 and repeats > 1:
                macs = {(dtype, op): work if "conv" in op else work / repeats for (dtype, op), work in macs.items()}
            piece = _piece(macs, held, [shares.get(p.key) for p in held], batch)
            pieces[node.path] = replace(piece, weights=piece.weights + packed)
        else:
            for (dtype, op), work in macs.items():
                free[own_dtype if op in APART and own_dtype else dtype, op] += work
            continue
        last = node
    if last is not None and tokens > 1 and rows_in(last) == batch * tokens:
        piece = pieces[last.path]
        pieces[last.path] = replace(piece, macs={key: work / tokens for key, work in piece.macs.items()})
    pieces[CACHE] = Piece(dict(free), cache=cache_bytes)
    return Load(pieces, tokens)


def mean_load(loads: Sequence[tuple[Load, float]]) -> Load:
    """The mean of several forwards of the same model, each with its weight; its least time is at most the mean of theirs."""
    whole = sum(weight for _, weight in loads)
    pieces: dict[str, Piece] = {}
    for path in dict.fromkeys(path for load, _ in loads for path in load.pieces):
        parts = [(load.pieces[path], weight / whole) for load, weight in loads if path in load.pieces]
        macs = summed((key, work * share) for piece, share in parts for key, work in piece.macs.items())
        last = parts[-1][0]
        cache = sum(piece.cache * share for piece, share in parts)
        pieces[path] = Piece(macs, last.weights, last.rows, last.experts, cache)
    return Load(pieces, loads[0][0].tokens)


def rows_in(node: Node) -> int:
    """Rows of the first input of a module's call: how many vectors go through its weights."""
    return prod(node.input_shapes[0][:-1]) if node.input_shapes else 1


def _macs(node: Node, dtype: str, batch: int, needed: float) -> dict[tuple[str, str], float]:
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in rows_of(node, (FORWARD,)):
        if row.cost.causal_macs:
            masked = is_attention(row.op) and not row.cost.skipped_macs
            found[row.dtype or dtype, row.op] += row.cost.causal_macs / batch * (needed if masked else 1.0)
    return dict(found)


def _piece(
    macs: Mapping[tuple[str, str], float], held: Iterable[Parameter], shares: Iterable[float | None], batch: int
) -> Piece:
    weights = rows = 0.0
    experts = []
    for parameter, share in zip(held, shares, strict=True):
        if share is not None:
            experts.append((float(parameter.nbytes), share))
        elif parameter.read_bytes is not None:
            rows += parameter.read_bytes / batch
        else:
            weights += parameter.nbytes
    return Piece(macs, weights, rows, tuple(experts))


def _owners(profile: Profile) -> dict[str, list[Parameter]]:
    """Every parameter once, at the module that multiplies most with it: a tied head, not the table."""
    best: dict[int, tuple[int, str, Parameter]] = {}
    for node in profile.walk():
        for parameter in node.parameters:
            work = node.own.forward.macs
            if parameter.key not in best or work > best[parameter.key][0]:
                best[parameter.key] = work, node.path, parameter
    found: defaultdict[str, list[Parameter]] = defaultdict(list)
    for _, path, parameter in best.values():
        found[path].append(parameter)
    return found


def expert_shares(profile: Profile) -> dict[int, float]:
    """By the key of a parameter of experts, the share that one token passes; the mean if experts are modules of a list."""
    found: dict[int, float] = {}
    for siblings in _siblings(profile):
        known = [(p.key, p.active) for p in siblings if p.active is not None]
        if any(share < 1 for _, share in known):
            mean = sum(share for _, share in known) / len(known)
            found |= dict.fromkeys((key for key, _ in known), mean)
    return found


def _siblings(profile: Profile) -> Iterator[list[Parameter]]:
    """Parameters of the same name in modules whose paths differ in their last number alone."""
    alike: defaultdict[tuple[str, ...], list[Parameter]] = defaultdict(list)
    for node in profile.walk():
        parts = node.path.split(".")
        numbers = [place for place, part in enumerate(parts) if part.isdecimal()]
        if numbers:
            parts[numbers[-1]] = "*"
        for parameter in node.parameters:
            alike[*parts, parameter.name].append(parameter)
    return iter(alike.values())
