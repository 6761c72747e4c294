"""The older profilers' AProfiler text: parameters, operations, time and activation bytes, by depth.

Activation is the growth of allocated memory during a module's forward if the device could tell it, else what was
saved for backward.
"""

from __future__ import annotations

from .. import units
from ..analysis.tables import activation
from ..results.node import Node
from ..results.profile import Profile
from .deepspeed_lines import Aggregate, fact, module_repr, row_text, rule, step_number, whole_text

NOTATIONS = """\
Notations:
1. number of parameters (params),
2. activation bytes (activation),
3. number of multiply-accumulate operations(macs),
4. number of floating-point operations (flops),
5. floating-point operations per second (FLOPS),
6. fwd latency (forward propagation latency)
"""

ORDER = """\
Each module profile is listed after its name in the following order:
params, flops, macs, fwd latency, fwd FLOPS, activation
"""


def _bytes(value: float) -> str:
    return units.deepspeed_large(value, "B")


AGGREGATE = Aggregate(
    "params, flops, macs, fwd latency, activation bytes",
    (
        ("params:", lambda kind: kind.params, units.deepspeed_params),
        ("flops:", lambda kind: kind.cost.flops, units.deepspeed_large),
        ("macs:", lambda kind: kind.cost.macs, units.deepspeed_large),
        ("fwd latency", lambda kind: kind.latency, units.deepspeed_time),
        ("activation", lambda kind: kind.activation_bytes, _bytes),
    ),
)


def render(
    profile: Profile,
    *,
    profile_step: int | None = None,
    depth: int | None = None,
    top_modules: int = 1,
    detailed: bool = False,
) -> str:
    """The whole text; `detailed` adds the module tree."""
    step = step_number(profile, profile_step)
    lines = [rule(f"AProfiler Summary at step {step}", 26), NOTATIONS, *summary(profile), ""]
    lines += AGGREGATE.lines(profile, depth, top_modules)
    if detailed:
        lines += ["", rule("Detailed Profile per GPU", 30), ORDER, *module_repr(profile.root, _described, depth)]
    return whole_text(profile, lines)


def summary(profile: Profile) -> list[str]:
    """The summary's lines; those that nothing is known about are left out."""
    lines = [
        fact("params per gpu", units.deepspeed_params(profile.params)),
        fact("activation bytes", units.deepspeed_large(activation(profile.root))),
        fact("fwd macs per GPU", units.deepspeed_large(profile.macs)),
        fact("fwd flops per GPU", units.deepspeed_large(profile.flops)),
    ]
    if profile.latency:
        rate = units.deepspeed_large(profile.flops / profile.latency)
        lines.append(fact("fwd latency", units.deepspeed_time(profile.latency)))
        lines.append(fact("fwd FLOPS per GPU = fwd flops per GPU / fwd latency", rate))
    return lines


def _described(node: Node) -> str:
    time = node.latency or 0.0
    parts = (
        f"{units.deepspeed_params(node.params)} params",
        f"{units.deepspeed_large(node.flops)} flops",
        f"{units.deepspeed_large(node.macs)} macs",
        f"{units.deepspeed_time(time)} latency",
        f"{units.deepspeed_large(node.flops / time if time else 0.0)} FLOPS",
        f"{_bytes(activation(node))} activation",
    )
    return row_text(node, parts)
