"""MFU and HFU in words: each number with the convention that it follows, or the reason why it is not known."""

from __future__ import annotations

from ..tree import Profile
from ..units import percent, rate, seconds, si
from .utilization import (
    achieved,
    flops_per_token,
    hardware_work,
    hfu,
    mfu,
    mfu_causal,
    missing_peaks,
    model_flops,
    model_work,
    step_seconds,
)

LEFT_OUT = "no recompute, no optimizer; attention dense, its backward 2.0x its forward"
STATE_IT = 'State it: FLOPSIGHT_PEAK_FLOPS="{dtype}=..." in dense FLOP/s.'


def explain(profile: Profile) -> list[str]:
    """Lines that say what was utilized, against what, and by which convention."""
    used = mfu(profile)
    if used is None:
        return [f"MFU is not known: {why_unknown(profile)}", *_rates(profile)]
    lines = [
        f"MFU {percent(used)} ({passes(profile)}) of the dense peak {peaks(profile)}",
        f"    model FLOPs: 2 per MAC of matrix work, {passes(profile)}, {LEFT_OUT}",
        f"    time: {_time(profile)}",
    ]
    if model_flops(profile, causal=True) != model_flops(profile):
        lines.append(f"MFU {percent(mfu_causal(profile) or 0)} with the masked half of causal attention left out")
    if profile.trained:
        lines.append(f"HFU {percent(hfu(profile) or 0)}: {repeated(profile)}")
    if used > 1:
        lines.append("More than the peak: the device clocks above its nameplate, or the stated peak or dtype is wrong.")
    return [*lines, *_rates(profile)]


def why_unknown(profile: Profile) -> str:
    """The first thing that a utilization lacks, and what to do about it."""
    if not model_work(profile):
        return "no matrix work was counted."
    if step_seconds(profile) is None:
        return f"no {'step' if profile.trained else 'forward'} was timed."
    dtypes = missing_peaks(profile)
    if "" in dtypes:
        return "the dtype that the ops ran in was not recorded."
    device = profile.environment.device_name or profile.environment.device or "the device"
    names = [dtype.partition("/")[0] for dtype in dtypes]
    return f"the peak of {device} in {' and '.join(names)} is not known. {STATE_IT.format(dtype=names[0])}"


def passes(profile: Profile) -> str:
    """What the model FLOPs are of."""
    if not profile.trained:
        return "forward only"
    return "forward + backward" if profile.forward.flops else "backward only"


def peaks(profile: Profile) -> str:
    """`312 TFLOP/s in bfloat16`, with each dtype's share of the work where there are several."""
    work = model_work(profile)
    total = sum(work.values())
    parts = []
    for dtype, flops in sorted(work.items(), key=lambda item: -item[1]):
        share = f" ({percent(flops / total)} of the work)" if len(work) > 1 else ""
        parts.append(f"{rate(profile.peak_flops[dtype])} in {_dtype(profile, dtype)}{share}")
    name = profile.environment.device_name
    return " and ".join(parts) + (f", {name}" if name else "")


def _dtype(profile: Profile, key: str) -> str:
    """The dtype, and whether torch may run it as TF32."""
    dtype, _, cudnn = key.partition("/")
    as_tf32 = cudnn or (dtype == "float32" and "tf32" in profile.peak_flops)
    return f"{dtype} as TF32" if as_tf32 else dtype


def _time(profile: Profile) -> str:
    timing = profile.timing
    whole = (timing.iteration or timing.step) if profile.trained else timing.forward
    what = "step" if profile.trained else "forward"
    taken = seconds(step_seconds(profile) or 0)
    if whole is None:
        return f"{taken}, the sum of forward, backward and optimizer"
    return f"{taken}, the median of {len(whole.samples)} {what}s" if len(whole.samples) > 1 else f"{taken}, one {what}"


def repeated(profile: Profile) -> str:
    """What hardware FLOPs have beside the model's."""
    model, hardware = model_flops(profile), sum(hardware_work(profile).values())
    if hardware == model:
        return "nothing was recomputed"
    return f"adds recompute, {percent((hardware - model) / model)} of the model FLOPs (checkpointing, and fused attention's own 0.5x)"


def _rates(profile: Profile) -> list[str]:
    lines = []
    speed, per_token = achieved(profile), flops_per_token(profile)
    if speed:
        lines.append(f"{rate(speed)} of model work")
    if per_token:
        lines.append(f"{si(per_token, 'FLOP')} of model work per token")
    if profile.tokens_per_second:
        lines.append(f"{si(profile.tokens_per_second)} tokens/s")
    elif profile.throughput:
        lines.append(f"{si(profile.throughput)} samples/s")
    return lines
