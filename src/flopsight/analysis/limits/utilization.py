"""MFU and HFU: the matrix work of a step, over its time, over the dense peak of the dtype each op ran in.

Model FLOPs are two for every multiply-accumulate of matrix work, forward and backward as autograd ran it, with
attention dense; pointwise work, the optimizer and all recompute stay out, as with PaLM and nanoGPT. Fused attention's
backward thus counts 2.0x its forward. HFU adds the recompute: checkpointed forwards, and the scores that a fused
attention's backward forms again. With several dtypes, utilization = sum(FLOPs / peak of their dtype) / time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ... import units
from ...errors import InputError
from ...hardware.named import named_ceilings
from ...results.ceilings import Conditions, peak_key, unit_name
from ...results.costs import Cost, OpRow, summed
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, PHASES, RECOMPUTE
from ...units import percent, rate


def unit_of(profile: Profile) -> str:
    """What a profile's figures are of: a step, a forward, or several forwards, as of a decoding."""
    if profile.trained:
        return "step"
    return f"run of {profile.root.calls:,} forwards" if profile.root.calls > 1 else "forward"


def lasting(profile: Profile, seconds: float) -> str:
    """Seconds with what they are of: `12 ms a step`, `351 ms for 8 forwards (43.9 ms each)`."""
    times = profile.root.calls
    if profile.trained or times <= 1:
        return f"{units.seconds(seconds)} a {unit_of(profile)}"
    return f"{units.seconds(seconds)} for {times:,} forwards ({units.seconds(seconds / times)} each)"


def mfu(profile: Profile) -> float | None:
    """Model FLOPs utilization; of the forward alone if no backward ran. None if a peak or the time is not known."""
    return _utilization(profile, model_work(profile))


def mfu_causal(profile: Profile) -> float | None:
    """MFU with the masked half of causal attention left out."""
    return _utilization(profile, model_work(profile, causal=True))


def hfu(profile: Profile) -> float | None:
    """Hardware FLOPs utilization: MFU and all recompute."""
    return _utilization(profile, hardware_work(profile))


def mfu_at(profile: Profile, seconds: float, device: str | None = None) -> float | None:
    """MFU of a step that takes that many seconds, on a named device or the profile's own; None without a peak."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InputError(f"The time of a step must be a number of seconds above 0, not {seconds!r}.")
    needed = seconds_at_peak(profile, device)
    return needed / seconds if needed else None


def seconds_at_peak(profile: Profile, device: str | None = None, *, causal: bool = False) -> float | None:
    """What the model work of one step would take at the peak of a named device, or the profile's own; None without one."""
    peaks = profile.peak_flops
    if device is not None:
        peaks = named_ceilings(device, tf32_products="tf32" in peaks).flops
    work = model_work(profile, causal=causal, peaks=peaks)
    if not work or any(not peaks.get(dtype) for dtype in work):
        return None
    return sum(flops / peaks[dtype] for dtype, flops in work.items())


def achieved(profile: Profile) -> float | None:
    """Model FLOP/s; None if no time was measured."""
    time = step_seconds(profile)
    return model_flops(profile) / time if time else None


def model_flops(profile: Profile, *, causal: bool = False) -> float:
    """Model FLOPs of one step."""
    return sum(model_work(profile, causal=causal).values())


def flops_per_token(profile: Profile) -> float | None:
    """Model FLOPs for each token of the batch; None if the inputs are not tokens."""
    return model_flops(profile) / profile.tokens if profile.tokens else None


def model_work(profile: Profile, *, causal: bool = False, peaks: Mapping[str, float] | None = None) -> dict[str, float]:
    """FLOPs of one step by the dtype whose peak they are held against: matrix work that the model needs done once.

    `peaks` are another device's, whose cuDNN ops may have a rate of their own.
    """

    def needed(cost: Cost) -> float:
        once = cost.macs - cost.recompute_macs
        # the masked share of what is repeated goes with the repetition
        return once - cost.skipped_macs * once / cost.macs if causal and cost.macs else once

    return summed((dtype, 2.0 * needed(cost)) for dtype, cost in _matrix_work(profile, (FORWARD, BACKWARD), peaks))


def hardware_work(profile: Profile) -> dict[str, float]:
    """FLOPs of one step by dtype: model work, checkpointed forwards and what kernels repeat."""
    rows = _matrix_work(profile, (FORWARD, BACKWARD, RECOMPUTE))
    return summed((dtype, 2.0 * cost.macs) for dtype, cost in rows)


def step_seconds(profile: Profile | Conditions) -> float | None:
    """The time that utilization is taken over: a whole iteration, or step, when trained, else the forward."""
    timing = profile.timing
    if not profile.trained:
        return timing.forward.median if timing.forward else None
    whole = timing.iteration or timing.step
    if whole:
        return whole.median
    if not (timing.forward and timing.backward):
        return None
    return sum(part.median for part in (timing.forward, timing.backward, timing.optimizer) if part)


def missing_peaks(profile: Profile) -> tuple[str, ...]:
    """Dtypes that matrix work ran in and whose peak is not known; "" if not even the dtype is."""
    return tuple(dtype for dtype in hardware_work(profile) if not profile.peak_flops.get(dtype))


def _utilization(profile: Profile, work: Mapping[str, float]) -> float | None:
    time = step_seconds(profile)
    if not time or not work or missing_peaks(profile):
        return None
    return sum(flops / profile.peak_flops[dtype] for dtype, flops in work.items()) / time


def _matrix_work(
    profile: Profile, phases: tuple[str, ...], peaks: Mapping[str, float] | None = None
) -> Iterator[tuple[str, Cost]]:
    """Every cost with MACs, and the key of its peak."""
    peaks = profile.peak_flops if peaks is None else peaks
    for node in profile.walk():
        for row in rows_of(node, phases):
            if row.cost.macs:
                yield peak_key(peaks, row.dtype or profile.environment.dtype, row.op), row.cost


def rows_of(node: Node, phases: Iterable[str] = PHASES) -> Iterator[OpRow]:
    """A module's own op rows, and what no row accounts for: a view, or a profile made by hand, may lack the rows."""
    wanted = tuple(phases)
    macs, moved, skipped, again = (dict.fromkeys(wanted, 0) for _ in range(4))  # plain sums: rows may be many
    for row in node.ops:
        phase, cost = row.phase, row.cost
        if phase in macs:
            macs[phase] += cost.macs
            moved[phase] += cost.bytes
            skipped[phase] += cost.skipped_macs
            again[phase] += cost.recompute_macs
            yield row
    for phase in wanted:
        own: Cost = getattr(node.own, phase)
        if own.macs > macs[phase] or own.bytes > moved[phase]:
            rest = max(0, own.macs - macs[phase]), 0, max(0, own.bytes - moved[phase])
            hidden, repeated = own.skipped_macs - skipped[phase], own.recompute_macs - again[phase]
            yield OpRow("", phase, 1, Cost(*rest, max(0, hidden), max(0, repeated)))


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
    """`312 TFLOP/s in bfloat16`, with each dtype's share of the work if there are several."""
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
