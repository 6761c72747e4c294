"""The words beside MFU and HFU: which work, which peak, what was recomputed, or why the number is not known."""

from __future__ import annotations

from ...results.ceilings import unit_name
from ...results.profile import Profile
from ...units import percent, rate
from .utilization import hardware_work, mfu_causal, missing_peaks, model_flops, model_work, step_seconds

LEFT_OUT = "no recompute, no optimizer; attention dense, its backward 2.0x its forward"
STATE_IT = 'State it: FLOPSIGHT_PEAK_FLOPS="{dtype}=..." in dense FLOP/s.'


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


def above_peak(profile: Profile) -> str:
    """How MFU can be above 100%."""
    causal = mfu_causal(profile)
    if causal is not None and causal <= 1:
        return f"MFU is above 100%: it counts causal attention dense, and kernels leave the masked half out; without it MFU is {percent(causal)}."
    return "MFU is above 100%: the device clocks above its nameplate, or the stated peak or dtype is wrong."


def passes(profile: Profile) -> str:
    """The passes that the model FLOPs count."""
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
        parts.append(f"{rate(profile.peak_flops[dtype])} in {unit_name(profile.peak_flops, dtype)}{share}")
    name = profile.environment.device_name
    return " and ".join(parts) + (f", {name}" if name else "")


def repeated(profile: Profile) -> str:
    """What hardware FLOPs add to model FLOPs."""
    model, hardware = model_flops(profile), sum(hardware_work(profile).values())
    if hardware == model:
        return "nothing was recomputed"
    return f"adds recompute, {percent((hardware - model) / model)} of the model FLOPs (checkpointing, and fused attention's own 0.5x)"
