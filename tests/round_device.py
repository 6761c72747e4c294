"""Profiles on a device with round figures, for findings: every number is arithmetic that stands here."""

from profiles import module, rooted

from flopsight.analysis.findings import findings
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing

TERA, GIGA = 10**12, 10**9
DEVICE = Ceilings(
    "Round", {"bfloat16": TERA, "float32": TERA / 10}, bandwidth=10.0 * GIGA, memory=10**9, link=float(GIGA)
)
MS = 1e-3


def op(
    name,
    macs=0,
    moved=0,
    *,
    phase="forward",
    seconds=None,
    kind="",
    dtype="bfloat16",
    shapes=(),
    layout="",
    calls=1,
    again=0,
):
    return OpRow(name, phase, calls, Cost(macs, bytes=moved), "counted", shapes, dtype, kind, seconds, layout, again)


def leaf(name, kind, *ops, **more):
    own = {phase: Cost() for phase in ("forward", "backward", "recompute", "optimizer")}
    for row in ops:
        own[row.phase] += row.cost
    forward = own.pop("forward")
    return module(name, kind, macs=forward.macs, moved=forward.bytes, ops=ops, **own, **more)


def profile(*children, step=0.100, device="cuda", ceilings=DEVICE, **more):
    """A profile of one forward that takes 100 ms, all of them kernels."""
    timing = more.pop("timing", Timing(forward=Stat((step,)), busy=step, idle=0.0) if step else Timing())
    root = more.pop("root", None) or rooted(module("", "Model", *children))
    return Profile(
        root, ceilings=ceilings, timing=timing, environment=Environment(device=device, dtype="bfloat16"), **more
    )


def names(p, device=None):
    return [finding.name for finding in findings(p, device)]


def only(p, name, device=None):
    (found,) = (finding for finding in findings(p, device) if finding.name == name)
    return found


PRODUCT = op("aten.mm", macs=4 * 10**10, moved=10**7, seconds=80 * MS)
"""80 ms at the peak, and it takes 80 ms."""


HEADS, LENGTH, DEPTH = 4, 100, 10


def attention(*, fused):
    if fused:
        flash = op(
            "aten._scaled_dot_product_flash_attention", macs=2 * HEADS * LENGTH**2 * DEPTH, moved=10, seconds=1 * MS
        )
        return leaf("attention", "Attention", flash)
    scores, keys = (HEADS, LENGTH, LENGTH), (HEADS, DEPTH, LENGTH)
    return leaf(
        "attention", "Attention",
        op("aten.bmm", macs=2 * HEADS * LENGTH**2 * DEPTH, moved=10**7, seconds=20 * MS, calls=2,
           shapes=(((HEADS, LENGTH, DEPTH), keys), (scores, (HEADS, LENGTH, DEPTH)))),
        op("aten._softmax", moved=10**7, seconds=10 * MS, shapes=((scores,),)),
        op("aten.mul", moved=10**7, seconds=5 * MS, kind="pointwise", shapes=((scores, ()),)),
        op("aten.clone", moved=10**6, seconds=7 * MS, kind="copy", shapes=(((HEADS, LENGTH, DEPTH),),)),
    )  # fmt: skip


def trained(*children, **more):
    timing = Timing(forward=Stat((0.04,)), backward=Stat((0.06,)), step=Stat((0.1,)), busy=0.04, backward_busy=0.06)
    return profile(*children, timing=timing, trained=True, **more)
