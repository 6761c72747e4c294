"""The older profilers' Flops Profiler text, label for label: summary, aggregated profile by depth, detailed tree.

Where no time was measured the summary leaves its latency lines out, and rows keep their form with `0 us, 0.00%
latency, 0.0 FLOPS`; a fourth note then says so.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import units
from ..results.node import Node
from ..results.profile import Profile
from ..results.timings import Stat
from .deepspeed_lines import Aggregate, fact, module_repr, row_text, rule, step_number, whole_text

NOTATIONS = """\
Notations:
data parallel size (dp_size), model parallel size(mp_size),
number of parameters (params), number of multiply-accumulate operations(MACs),
number of floating-point operations (flops), floating-point operations per second (FLOPS),
fwd latency (forward propagation latency), bwd latency (backward propagation latency),
step (weights update latency), iter latency (sum of fwd, bwd and step latency)
"""

NOTES = """\
Each module profile is listed after its name in the following order:
params, percentage of total params, MACs, percentage of total MACs, fwd latency, percentage of total fwd latency, fwd FLOPS

Note: 1. A module can have torch.nn.module or torch.nn.functional to compute logits (e.g. CrossEntropyLoss). They are not \
counted as submodules, thus not to be printed out. However they make up the difference between a parent's MACs (or latency) \
and the sum of its submodules'.
2. Number of floating-point operations is a theoretical estimation, thus FLOPS computed using that could be larger than the \
maximum system throughput.
3. The fwd latency listed in the top module's profile is directly captured at the module forward function in PyTorch, thus \
it can differ from the fwd latency shown above which is captured with nothing attached to the model."""

AGGREGATE = Aggregate(
    "params, MACs or fwd latency",
    (
        ("params", lambda kind: kind.params, units.deepspeed_params),
        ("MACs", lambda kind: kind.cost.macs, units.deepspeed_macs),
        ("fwd latency", lambda kind: kind.latency, units.deepspeed_time),
    ),
)
NO_TIME = "4. Latency was not measured: the latencies and FLOPS below are 0."


def render(
    profile: Profile,
    *,
    profile_step: int | None = None,
    depth: int | None = None,
    top_modules: int = 1,
    detailed: bool = True,
) -> str:
    """The whole text; `depth` is the older profilers' `module_depth`, None for the deepest."""
    step = step_number(profile, profile_step)
    lines = [rule("Flops Profiler", 26), f"Profile Summary at step {step}:", NOTATIONS, *summary(profile), ""]
    lines += [*AGGREGATE.lines(profile, depth, top_modules), ""]
    if detailed:
        lines += [rule("Detailed Profile per GPU", 30), NOTES]
        lines += [] if profile.root.latency else [NO_TIME]
        lines += ["", *module_repr(profile.root, described(profile), depth)]
    return whole_text(profile, lines)


def summary(profile: Profile) -> list[str]:
    """The summary's lines; those that nothing is known about are left out."""
    return [*_world(profile), *_size(profile), *_speed(profile)]


def described(profile: Profile) -> Callable[[Node], str]:
    """What stands in front of a module's own text, shares taken of the whole model."""
    root = profile.root
    whole_time = root.latency or 0.0

    def describe(node: Node) -> str:
        time = node.latency or 0.0
        parts = (
            units.deepspeed_params(node.params),
            f"{units.deepspeed_percent(node.params, root.params)} Params",
            units.deepspeed_macs(node.macs),
            f"{units.deepspeed_percent(node.macs, root.macs)} MACs",
            units.deepspeed_time(time),
            f"{units.deepspeed_percent(time, whole_time)} latency",
            units.deepspeed_rate(node.flops / time if time else 0.0),
        )
        return row_text(node, parts)

    return describe


def _world(profile: Profile) -> list[str]:
    world = profile.world
    if world.size == 1 and profile.batch_size is None:
        return []
    sizes: dict[str, int | None] = {"world size": world.size, "data parallel size": world.data_parallel}
    sizes |= {"model parallel size": world.model_parallel, "batch size per GPU": profile.batch_size}
    return [fact(name, str(size)) for name, size in sizes.items() if size is not None]


def _size(profile: Profile) -> list[str]:
    ways = profile.world.model_parallel
    params, flops = profile.params * ways, profile.flops * ways
    whole = profile.whole
    if whole is not None and (profile.unsharded is not None or whole.params != profile.params):
        params, flops = whole.params, whole.flops
    # a shard of every tensor is not 1/mp_size of the model, so the older profilers' equation would be false
    params_label = "params of model" + (" = params per GPU * mp_size" if params == profile.params * ways else "")
    flops_label = "fwd flops of model" + (" = fwd flops per GPU * mp_size" if flops == profile.flops * ways else "")
    lines = [
        fact("params per gpu", units.deepspeed_params(profile.params)),
        fact(params_label, units.deepspeed_params(params)),
        fact("fwd MACs per GPU", units.deepspeed_macs(profile.macs)),
        fact("fwd flops per GPU", units.deepspeed_flops(profile.flops)),
        fact(flops_label, units.deepspeed_flops(flops)),
    ]
    world = profile.world
    if profile.part and (ways == 1 or world.pipeline > 1 or world.expert > 1):
        del lines[4], lines[1]  # one stage or some experts: the older profilers' product would be a guess
    return lines


def _speed(profile: Profile) -> list[str]:
    timing, flops = profile.timing, profile.flops
    forward, backward = _seconds(timing.forward), _seconds(timing.backward)
    times, rates, ends = [], [], []
    if forward:
        times.append(fact("fwd latency", units.deepspeed_time(forward)))
        rates.append(fact("fwd FLOPS per GPU = fwd flops per GPU / fwd latency", units.deepspeed_rate(flops / forward)))
    if backward:
        # DeepSpeed's estimate stays, as its users compare it; what autograd really ran stands beneath it
        factor = 2 + profile.recompute_fwd_factor
        label = f"bwd FLOPS per GPU = {factor:g} * fwd flops per GPU / bwd latency"
        times.append(fact("bwd latency", units.deepspeed_time(backward)))
        rates.append(fact(label, units.deepspeed_rate(factor * flops / backward)))
        counted = profile.backward.flops + profile.recompute.flops
        if counted:
            label = "bwd FLOPS per GPU = counted bwd flops per GPU / bwd latency"
            rates.append(fact(label, units.deepspeed_rate(counted / backward)))
        if forward:
            label = f"fwd+bwd FLOPS per GPU = {factor + 1:g} * fwd flops per GPU / (fwd+bwd latency)"
            rates.append(fact(label, units.deepspeed_rate((factor + 1) * flops / (forward + backward))))
    step = _seconds(timing.optimizer)
    if step:
        ends.append(fact("step latency", units.deepspeed_time(step)))
    if forward and backward:
        whole = forward + backward + step  # as the notations say; what runs in between is not part of it
        ends.append(fact("iter latency", units.deepspeed_time(whole)))
        if profile.batch_size:
            samples = profile.batch_size * profile.world.data_parallel / whole
            ends.append(fact("samples/second", str(round(samples, 2))))
    return times + rates + ends


def _seconds(stat: Stat | None) -> float:
    return stat.median if stat else 0.0
