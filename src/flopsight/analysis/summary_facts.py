"""The summary of a profile: a list of facts, each with its unit, in the order in which a reader asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from .. import units
from ..results.comm import CommRow
from ..results.costs import summed
from ..results.node import Node
from ..results.profile import Profile
from ..results.timings import Stat
from .limits.utilization import LEFT_OUT, achieved, flops_per_token, mfu_causal, passes, peaks, repeated
from .tables import modules

NEARLY = 0.99
"""Share of a whole from which its parts are taken for all of it."""

MOST = 8
FIRST = (
    "Total params", "Params of the whole model", "Active params", "Forward MACs", "Forward FLOPs", "Backward FLOPs", "Peak memory",
    "Step latency", "MFU", "Forward latency", "Activations saved for backward", "Throughput", "Trainable params",
)  # fmt: skip
"""The facts of a short summary, the first ones that a profile has."""


@dataclass(frozen=True)
class Fact:
    """One line of a summary."""

    label: str
    value: float
    unit: str
    """A name that `units.say` knows."""
    note: str = ""


def facts(profile: Profile) -> list[list[Fact]]:
    """Everything known, in groups: parameters, work, communication, memory, time."""
    groups = (_parameters(profile), _work(profile), _exchanged(profile), _memory(profile), _time(profile))
    return [group for group in groups if group]


def foremost(profile: Profile) -> list[Fact]:
    """The few facts that a reader looks for first, in the summary's order."""
    known = [fact for group in facts(profile) for fact in group]
    order = {label: place for place, label in enumerate(FIRST)}
    chosen = sorted(known, key=lambda fact: order.get(fact.label, len(FIRST)))[:MOST]
    return [fact for fact in known if fact in chosen]


def pass_bytes(root: Node) -> int:
    """What torchinfo calls the forward/backward pass size: outputs of leaves with parameters, and their gradients."""
    leaves = (node for node in root.walk() if node.params and node.called and not modules(node.children))
    return 2 * sum(node.output_bytes * max(node.calls, 1) for node in leaves)


def _parameters(profile: Profile) -> list[Fact]:
    found = [
        Fact("Total params", profile.params, "count"),
        Fact("Trainable params", profile.trainable_params, "count"),
        Fact("Non-trainable params", profile.params - profile.trainable_params, "count"),
    ]
    whole = profile.whole
    if whole is not None and whole.params != profile.params:
        found.insert(1, Fact("Params of the whole model", whole.params, "count"))
        if whole.active_params not in (None, whole.params):
            found.insert(2, Fact("Active params of the whole model", whole.active_params or 0, "count"))
    if profile.active_params not in (None, profile.params):
        found.insert(1, Fact("Active params", profile.active_params or 0, "count", "those that one token passes"))
    return found


def _work(profile: Profile) -> list[Fact]:
    causal = profile.forward.skipped_macs > 0
    doubts = ["attention dense"] if causal else []
    if not profile.coverage.complete:
        doubts.append("at least: some op calls are unknown")
    found = [
        Fact("Forward MACs", profile.macs, "MAC", ", ".join(doubts)),
        Fact("Forward FLOPs", profile.flops, "FLOP", ", ".join(doubts)),
    ]
    if causal:
        found.append(Fact("Forward FLOPs, causal", profile.forward.causal_flops, "FLOP", "masked half left out"))
    if profile.whole is not None and profile.whole.flops != profile.flops:
        found.append(Fact("Forward FLOPs of the whole model", profile.whole.flops, "FLOP"))
    for label, cost in (
        ("Backward FLOPs", profile.backward),
        ("Recompute FLOPs", profile.recompute),
        ("Optimizer FLOPs", profile.optimizer),
    ):
        if cost.flops:
            found.append(Fact(label, cost.flops, "FLOP"))
    return found


def _exchanged(profile: Profile) -> list[Fact]:
    """What goes to other ranks, by collective."""
    rows = [row for row in summed((row.op, row) for row in profile.comm).values() if row.bytes]
    return [Fact(f"Handed to {row.op}", row.bytes, "byte", _on_the_wire(row)) for row in rows]


def _on_the_wire(row: CommRow) -> str:
    exposed = f", {units.seconds(row.exposed)} exposed of {units.seconds(row.seconds or 0.0)}" if row.exposed else ""
    return f"{units.calls(row.calls)}, {units.size(row.wire_bytes)} sent{exposed}"


def _memory(profile: Profile) -> list[Fact]:
    root = profile.root
    outputs = pass_bytes(root)
    estimate = "as torchinfo estimates: input, params, pass"
    if profile.peak_bytes:
        estimate += "; the peak is all that was alive at once"
    found = [
        Fact("Input size", root.input_bytes, "byte"),
        Fact("Params size", root.param_bytes, "byte"),
        Fact("Forward/backward pass size", outputs, "byte", "layer outputs and their gradients"),
        Fact("Estimated total size", root.input_bytes + root.param_bytes + outputs, "byte", estimate),
    ]
    alive = ", ".join(f"{kind} {units.size(part)}" for kind, part in profile.largest_at_peak if part)
    if records_gradients(profile):
        alive += "; gradients were recorded, torch.no_grad() needs less"
    for label, value, note in (
        ("Activations saved for backward", root.activation_bytes, ""),
        ("Optimizer state", root.optimizer_bytes, ""),
        ("Peak memory", profile.peak_bytes, alive),
    ):
        if value:
            found.append(Fact(label, value, "byte", note))
    return found


def records_gradients(profile: Profile) -> bool:
    """Whether a forward alone saved what only a backward would need."""
    return not profile.trained and profile.activation_bytes > 0


def _time(profile: Profile) -> list[Fact]:
    timing = profile.timing
    found = [
        Fact(label, stat.median, "second", spread(stat) + more)
        for label, stat, more in (
            ("Forward latency", timing.forward, ""),
            ("Backward latency", timing.backward, _around_nodes(profile)),
            ("Optimizer latency", timing.optimizer, ""),
            ("Step latency", timing.step, ""),
            ("Iteration latency", timing.iteration, ""),
            ("Waiting for data", timing.data_wait, ""),
        )
        if stat
    ]
    if timing.busy is not None:
        found.append(Fact("Device busy in forward", timing.busy, "second", "the time of all its kernels"))
    if timing.idle is not None and profile.latency:
        found.append(
            Fact("Device idle in forward", timing.idle, "second", f"{timing.idle / profile.latency:.0%} of the latency")
        )
    if profile.throughput:
        found.append(Fact("Throughput", profile.throughput, "samples/s"))
    if profile.tokens_per_second:
        found.append(Fact("Token throughput", profile.tokens_per_second, "tokens/s"))
    found += _speed(profile)
    return found


def _around_nodes(profile: Profile) -> str:
    """How much of the backward the root's row shows, if that is not all; nothing on a device, whose rows are kernels."""
    timing, inside = profile.timing, profile.root.backward_latency
    if timing.backward is None or inside is None or timing.busy is not None or inside > NEARLY * timing.backward.median:
        return ""
    return f"; {units.seconds(inside)} in autograd nodes, the rest around them"


def _speed(profile: Profile) -> list[Fact]:
    found = []
    if profile.latency:
        found.append(Fact("Forward FLOP/s", profile.flops / profile.latency, "FLOP/s"))
    model_rate = achieved(profile)
    if model_rate and profile.trained:
        found.append(Fact("Model FLOP/s of the step", model_rate, "FLOP/s", "matrix work, forward and backward"))
    per_token = flops_per_token(profile)
    if per_token:
        found.append(Fact("Model FLOPs per token", per_token, "FLOP", passes(profile)))
    return found + _utilization(profile)


def _utilization(profile: Profile) -> list[Fact]:
    """Shares of the device's peak, each with its convention."""
    used, causal, hardware = profile.mfu, mfu_causal(profile), profile.hfu
    if used is None or causal is None or hardware is None:
        return []
    convention = f"of {peaks(profile)}; {passes(profile)}, {LEFT_OUT}"
    found = [Fact("MFU", used, "share", convention)]
    if causal != used:
        found.append(Fact("MFU, causal", causal, "share", "masked half left out"))
    if profile.trained:
        found.append(Fact("HFU", hardware, "share", repeated(profile)))
    return found


def spread(stat: Stat) -> str:
    """How far repeated runs lay apart."""
    runs = len(stat.samples)
    return f"median of {runs}, mean {units.seconds(stat.mean)}, quartiles {stat.spread:.1%} apart" if runs > 1 else ""
