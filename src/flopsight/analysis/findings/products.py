"""Products that a device cannot run at its peak: odd sizes, a layout it has to turn, few rows."""

from __future__ import annotations

from collections.abc import Iterator

from ... import units
from ...results.costs import OpRow
from ...results.node import Node
from ...results.records import FORWARD
from ..limits.fused import MODEL
from ..limits.roofline import roof_of
from .finding import Finding
from .memory_use import most_samples
from .scene import Scene, paths

ALIGNED = {"bfloat16": 8, "float16": 8, "float32": 4, "int8": 16, "float8_e4m3fn": 16, "float8_e5m2": 16}
"""Elements in 16 bytes: matrix units load rows in such pieces."""
EFFICIENT = 0.8
"""Share of the limit from which on a product has no more to win by its shape."""
WITHOUT_MATRIX_UNITS = ("", "cpu", "mps")
PLAIN_PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.linear")


def odd_sizes(scene: Scene) -> Iterator[Finding]:
    """Products whose inner or output size is not a multiple of what matrix units load at once."""
    if scene.launch_bound or not scene.measured or scene.profile.environment.device in WITHOUT_MATRIX_UNITS:
        return
    found: list[tuple[float, Node, OpRow, int]] = []
    for node, row in scene.rows(MODEL):
        sizes = _odd(row)
        now, least = scene.seconds(row), scene.limit(row)
        if sizes and row.seconds is not None and 0 < least < EFFICIENT * now:
            found.append((now - least, node, row, max(sizes)))
    win = sum(each[0] for each in found)
    if not found or not scene.worth(win):
        return
    found.sort(key=lambda each: -each[0])
    _, _, row, size = found[0]
    step = ALIGNED[row.dtype]
    up, far = -(-size // step) * step, -(-size // 64) * 64
    yield Finding(
        "shapes",
        "Products have sizes that matrix units cannot load in whole pieces",
        paths(node for _, node, _, _ in found),
        f"a size of {units.count(size)} is not a multiple of {step} in {row.dtype}, and {row.op} takes "
        f"{units.seconds(scene.seconds(row))} for {units.seconds(scene.limit(row))} at the limit",
        f"pad it to {units.count(up)}, or to {units.count(far)}, a multiple of 64",
        win,
    )


def _odd(row: OpRow) -> list[int]:
    """The inner and output sizes of a product that are not multiples of 16 bytes."""
    step = ALIGNED.get(row.dtype)
    if step is None or row.op not in PLAIN_PRODUCTS or not row.cost.macs:
        return []
    sizes = {size for shapes in row.shapes for shape in shapes[-2:] if len(shape) > 1 for size in shape[-2:]}
    rows = {shape[-2] for shapes in row.shapes for shape in shapes[-2:-1] if len(shape) > 1}
    return [size for size in sizes - rows if size % step and size > step]


IMAGE_OPS = ("batch_norm", "pool2d")


def channels_first(scene: Scene) -> Iterator[Finding]:
    """Convolutions over images whose channels come first: matrix units take them last, so every one is turned."""
    if scene.launch_bound or not scene.measured or scene.profile.environment.device in WITHOUT_MATRIX_UNITS:
        return
    timed = [(node, row) for node, row in scene.rows(MODEL) if row.seconds is not None]
    rows = [(node, row) for node, row in timed if row.layout == "channels_first"]
    now, least = (sum(read(row) for _, row in rows) for read in (scene.seconds, scene.limit))
    # norms and pools over the same images run faster with channels last, too
    others = sum(scene.seconds(row) - scene.limit(row) for _, row in timed if any(word in row.op for word in IMAGE_OPS))
    win = now - least + max(0.0, others)
    if not rows or not least or not scene.worth(now - least):
        return
    yield Finding(
        "layout",
        "Convolutions get images with channels first",
        paths(node for node, _ in rows),
        f"{units.count(sum(row.calls for _, row in rows))} convolutions take {units.seconds(now)}, their limit is "
        f"{units.seconds(least)}; norms and pools are {units.seconds(max(0.0, others))} above theirs",
        "model.to(memory_format=torch.channels_last), and the images too",
        win,
    )


def small_batch(scene: Scene) -> Iterator[Finding]:
    """Products with so few rows that reading the weights takes longer than using them, or launches longer than both."""
    ceilings, profile = scene.ceilings, scene.profile
    if ceilings is None or not ceilings.bandwidth or not profile.batch_size or scene.step is None or profile.trained:
        return
    roof = roof_of(profile.root, ceilings, dtype=profile.environment.dtype)
    if roof is None or not roof.compute:
        return
    products = [row for _, row in scene.rows((FORWARD,)) if row.cost.macs]
    thin = sum(scene.limit(row) for row in products if _memory_bound(scene, row))
    read = sum(map(_weights_read, profile.walk()))
    weights = read / ceilings.bandwidth
    by_weights = 2 * thin > sum(map(scene.limit, products)) and weights > thin / 2
    if not (by_weights or scene.launch_bound):
        return
    win = scene.step - max(0.0, roof.limit - weights)
    fuller = max(weights / roof.compute, scene.step / roof.limit if scene.launch_bound else 0.0)
    knee = min(round(profile.batch_size * fuller), most_samples(scene))
    if not scene.worth(win) or knee <= profile.batch_size:
        return
    yield Finding(
        "batch",
        f"A batch of {profile.batch_size} leaves the device waiting for weights"
        + (" and launches" if scene.launch_bound else ""),
        ("",),
        f"reading {units.size(read)} of weights takes {units.seconds(weights)}, the products "
        f"{units.seconds(roof.compute)}, a step {units.seconds(scene.step)}",
        f"a larger batch, up to about {knee}: the step's time for as many samples then falls",
        win,
    )


def _weights_read(node: Node) -> int:
    """Bytes of weights that a module's own products read in a forward: of experts, and of parts, only what they move."""
    moved = sum(row.cost.bytes for row in node.ops if row.phase == FORWARD and row.cost.macs)
    # a module may use the weights of those that it holds
    inside = [child for child in node.children if not child.called]
    held = sum(parameter.nbytes for each in (node, *inside) for parameter in each.parameters)
    return min(moved, max(1, node.calls) * held)


def _memory_bound(scene: Scene, row: OpRow) -> bool:
    ceilings = scene.ceilings
    assert ceilings is not None
    peak = ceilings.peak(row.dtype or scene.profile.environment.dtype, row.op)
    return bool(peak and ceilings.bandwidth and row.cost.bytes / ceilings.bandwidth > 2 * row.cost.macs / peak)
