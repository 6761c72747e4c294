"""Work in a wider dtype than it needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ... import units
from ...results.ceilings import peak_key, unit_name
from ...results.costs import OpRow
from ..limits.fused import MODEL
from ..limits.roofline import row_roof
from .finding import Finding
from .scene import Scene, paths

WIDE = ("float32", "float64")
HALF = ("bfloat16", "float16")
MUCH_FASTER = 1.3


def wide_products(scene: Scene) -> Iterator[Finding]:
    """Products in float32 or float64 on a device that is much faster in 16 bits."""
    ceilings, profile = scene.ceilings, scene.profile
    if ceilings is None or scene.launch_bound:
        return
    narrow = narrow_dtype(scene)
    if narrow is None:
        return
    fast = ceilings.flops[narrow]
    rows = [(node, row) for node, row in scene.rows(MODEL) if (row.dtype or profile.environment.dtype) in WIDE]
    products = [
        (node, row)
        for node, row in rows
        if row.cost.macs and MUCH_FASTER * (ceilings.flops.get(_key(scene, row)) or math.inf) <= fast
    ]
    if not scene.worth(sum(_win(scene, row, narrow) for _, row in products)):
        return  # a few small products in a wide dtype, such as those of a rotary embedding, are meant
    win = sum(_win(scene, row, narrow) for _, row in rows)
    now = sum(scene.seconds(row) for _, row in rows)
    products.sort(key=lambda place: -scene.seconds(place[1]))
    used = dict.fromkeys(_key(scene, row) for _, row in products)
    allowed = ", or let products use TF32" if scene.worth(_tf32_win(scene, [row for _, row in products])) else ""
    scaled = " with a GradScaler" if narrow == "float16" and profile.trained else ""
    whole = "" if scaled else f" or model.{'half' if narrow == 'float16' else narrow}()"
    yield Finding(
        "precision",
        "Products run in a wide dtype",
        paths(node for node, _ in products),
        f"work in {' and '.join(dict.fromkeys(key.partition('/')[0] for key in used))} takes {units.seconds(now)} {scene.basis}; "
        f"products run in {' and '.join(f'{unit_name(ceilings.flops, key)} at {units.rate(ceilings.flops[key])}' for key in used)}, "
        f"{narrow} has {units.rate(fast)}",
        f"torch.autocast(dtype=torch.{narrow}){scaled}{whole}{allowed}",
        win,
    )


def _tf32_win(scene: Scene, rows: list[OpRow]) -> float:
    """What TF32 brings to products in plain float32, if convolutions may use it and they may not."""
    assert scene.ceilings is not None
    peaks = scene.ceilings.flops
    if not peaks.get("float32/cudnn"):
        return 0.0
    fast = replace(scene.ceilings, flops={**peaks, "float32": peaks["float32/cudnn"]})
    roofs = [(row, row_roof(row, fast, "float32")) for row in rows if _key(scene, row) == "float32"]
    return sum(max(0.0, scene.seconds(row) - roof.limit) for row, roof in roofs if roof)


def narrow_dtype(scene: Scene) -> str | None:
    """The 16 bits that the device has units for; None if it has none, or nothing is known of it."""
    return next((dtype for dtype in HALF if scene.ceilings and scene.ceilings.peak(dtype)), None)


def _key(scene: Scene, row: OpRow) -> str:
    assert scene.ceilings is not None
    return peak_key(scene.ceilings.flops, row.dtype or scene.profile.environment.dtype, row.op)


def _win(scene: Scene, row: OpRow, narrow: str) -> float:
    """What half the bytes and the faster peak bring: products at the peak, other work at the efficiency it has now."""
    assert scene.ceilings is not None
    then = row_roof(replace(row, dtype=narrow, cost=replace(row.cost, bytes=row.cost.bytes // 2)), scene.ceilings)
    now, least = scene.seconds(row), scene.limit(row)
    if then is None or not least:
        return 0.0
    after = then.limit
    return max(0.0, now - after) if row.cost.macs else now * (1 - min(1.0, after / least))


def wide_norms(scene: Scene) -> Iterator[Finding]:
    """Norms that autocast runs in float32 between products in 16 bits, with the casts around them."""
    products = [row for _, row in scene.rows(MODEL) if row.cost.macs]
    narrow = [row for row in products if row.dtype in HALF]
    half = sum(row.cost.macs for row in narrow)
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
        f"keep the norms' weights and inputs in {narrow[0].dtype}, or fuse them with torch.compile",
        win,
    )
