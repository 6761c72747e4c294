"""Work in a wider dtype than it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ... import units
from ...costs import OpRow
from ..roofline import row_roof
from .finding import Finding
from .scene import MODEL, Scene, paths

WIDE = ("float32", "float64")
HALF = ("bfloat16", "float16")
MUCH_FASTER = 1.3


def wide_products(scene: Scene) -> Iterator[Finding]:
    """Products in float32 or float64 on a device that is much faster in bfloat16."""
    ceilings, profile = scene.ceilings, scene.profile
    if ceilings is None or scene.launch_bound:
        return
    fast = ceilings.peak("bfloat16")
    rows = [(node, row) for node, row in scene.rows(MODEL) if (row.dtype or profile.environment.dtype) in WIDE]
    products = [(node, row) for node, row in rows if row.cost.macs]
    if not fast or not products:
        return
    slow = _mean_peak(scene, [row for _, row in products]) or fast
    if fast < MUCH_FASTER * slow:
        return
    if not scene.worth(sum(_win(scene, row) for _, row in products)):
        return  # a few small products in a wide dtype, such as those of a rotary embedding, are meant
    win = sum(_win(scene, row) for _, row in rows)
    now = sum(scene.seconds(row) for _, row in rows)
    tf32 = ceilings.flops.get("float32/cudnn", 0.0)  # convolutions may use it by default, products may not
    allowed = ", or let products use TF32" if slow < tf32 / MUCH_FASTER else ""
    largest = sorted(products, key=lambda place: -scene.seconds(place[1]))
    yield Finding(
        "precision",
        "Products run in a wide dtype",
        paths(node for node, _ in largest),
        f"work in {products[0][1].dtype or profile.environment.dtype} takes {units.seconds(now)} {scene.basis} at a peak of "
        f"{units.rate(slow)}, bfloat16 has {units.rate(fast)}",
        f"torch.autocast(dtype=torch.bfloat16) or model.bfloat16(){allowed}",
        win,
        scene.share(win),
    )


def _win(scene: Scene, row: OpRow) -> float:
    """What half the bytes and the faster peak bring: products at the peak, other work at the efficiency it has now."""
    assert scene.ceilings is not None
    narrow = replace(row, dtype="bfloat16", cost=replace(row.cost, bytes=row.cost.bytes // 2))
    then = row_roof(narrow, scene.ceilings)
    now, least = scene.seconds(row), scene.limit(row)
    if then is None or not least:
        return 0.0
    after = then.limit
    return max(0.0, now - after) if row.cost.macs else now * (1 - min(1.0, after / least))


def _mean_peak(scene: Scene, rows: list[OpRow]) -> float | None:
    """FLOP/s at which products run at their peaks, convolutions as TF32 where they may."""
    assert scene.ceilings is not None
    peaks = [(scene.ceilings.peak(row.dtype or scene.profile.environment.dtype, row.op), row.cost.macs) for row in rows]
    taken = sum(macs / peak for peak, macs in peaks if peak)
    return sum(macs for peak, macs in peaks if peak) / taken if taken else None


def wide_norms(scene: Scene) -> Iterator[Finding]:
    """Norms that autocast runs in float32 between products in 16 bits, with the casts around them."""
    products = [row for _, row in scene.rows(MODEL) if row.cost.macs]
    half = sum(row.cost.macs for row in products if row.dtype in HALF)
    if scene.launch_bound or not products or 2 * half < sum(row.cost.macs for row in products):
        return
    norms = [
        (node, row) for node, row in scene.rows(MODEL) if "norm" in row.op and row.dtype == "float32" and row.cost.bytes
    ]
    holders = {node.path for node, _ in norms}
    casts = [row for node, row in scene.rows(MODEL) if node.path in holders and row.op == "aten._to_copy"]
    spent, casting = sum(scene.seconds(row) for _, row in norms), sum(map(scene.seconds, casts))
    win = spent / 2 + casting
    if not norms or not scene.worth(win):
        return
    yield Finding(
        "wide norms",
        "Norms run in float32 between products in 16 bits",
        paths(node for node, _ in norms),
        f"{len(holders)} norms take {units.seconds(spent)} and their casts {units.seconds(casting)} {scene.basis}",
        "keep the norms' weights and inputs in bfloat16 (model.bfloat16()), or fuse them with torch.compile",
        win,
        scene.share(win),
    )
