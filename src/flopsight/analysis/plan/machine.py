"""The GPUs of a job and the links between them: what a plan takes their speed to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any

from ... import units
from ...errors import InputError, did_you_mean, whole_number
from ...hardware.kernel_shares import KERNEL, Shares, shares_of
from ...hardware.named import datasheet, named_device
from ...results.ceilings import Ceilings
from ...results.comm import wire_bytes
from ..limits.fused import FUSED

CHUNKS = 4
"""Parts of the model that a stage of a pipeline holds, run in turns (interleaved 1F1B)."""
FRAGMENTS = 0.08
"""Of what comes and goes in a step, what the caching allocator holds beyond it; torchtitan's reserved memory is 7 to 13 % above ours."""
RESERVED = 2 * 10**9
"""Bytes of a GPU that the driver's context and NCCL's buffers take."""
LAUNCH = 6e-6
"""Seconds of the host for an op in eager mode."""
GBIT = 1e9 / 8
OWN = ("chunks", "fragments", "reserved", "fused", "launch", "kernel")
"""Assumptions of a machine beside its shares."""
MAY_BE_NOTHING = ("fragments", "reserved", "fused", "launch", "kernel", "latency", "overlap")
"""Assumptions that add to a step or to its memory; by all others something is divided."""


@dataclass(frozen=True)
class Machine:
    """GPUs of one kind in nodes of equal size."""

    ceilings: Ceilings
    shares: Shares
    gpus_per_node: int = 8
    chunks: int = CHUNKS
    fragments: float = FRAGMENTS
    reserved: float = RESERVED
    fused: float = FUSED
    launch: float = LAUNCH
    kernel: float = KERNEL
    """Seconds of a kernel beside its work."""

    @property
    def room(self) -> int:
        """Bytes that a job can use on one GPU."""
        return int((self.ceilings.memory or 0) - self.reserved)

    @property
    def inside(self) -> float:
        """Bytes a second that a collective reaches inside a node."""
        return (self.ceilings.link or 0.0) * self.shares.nvlink

    @property
    def card(self) -> float:
        """Bytes a second that a GPU's network card reaches."""
        return self.shares.between_nodes * GBIT * self.shares.network

    def rate(self, ranks: int, apart: int) -> float:
        """Bytes a second of a ring over so many ranks, of which neighbours are `apart` numbers apart.

        Between nodes every member of a node uses its own card, so a group moves at the cards of its members together.
        """
        if ranks * apart <= self.gpus_per_node:
            return self.inside
        members = max(1, self.gpus_per_node // apart)
        return min(self.inside or self.card, members * self.card)

    def seconds(self, op: str, handed_in: float, ranks: int, apart: int) -> float:
        """One collective: what a rank sends at the ring's rate, and a latency for every node or rank it passes."""
        if ranks <= 1 or not handed_in:
            return 0.0
        hops = min(ranks, max(2, ranks * apart // self.gpus_per_node))
        return wire_bytes(op, int(handed_in), ranks) / self.rate(ranks, apart) + hops * self.shares.latency


def machine_of(
    name: str,
    *,
    gpus: int,
    gpus_per_node: int,
    between_nodes: float | None,
    assume: Mapping[str, float] | None,
    dtype: str = "bfloat16",
) -> Machine:
    """The machine that a job computing in `dtype` runs on, refused if a figure that it needs is not in the table of devices."""
    if not isinstance(name, str):
        raise InputError(f"on is the name of a device, like 'h100-sxm', not {name!r}.")
    device = named_device(name)
    ceilings = datasheet(device, tf32_products=True)
    if not ceilings.peak(dtype):
        known = ", ".join(sorted(ceilings.flops)) or "none"
        raise InputError(
            f"The table of devices has no {dtype} peak of {device.name} (it has {known}): plan another precision, or name another device."
        )
    if not ceilings.memory:
        raise InputError(
            f"The table of devices has no memory of {device.name}, so whether a job fits cannot be said; "
            f"name a device that has it, like h100-sxm."
        )
    if gpus > 1 and gpus_per_node > 1 and not ceilings.link:
        raise InputError(
            f"The table of devices has no link between two {device.name}, which {gpus} GPUs need; say gpus_per_node=1 "
            f"(--gpus-per-node 1) if they talk over the network alone."
        )
    shares = shares_of(device)
    if between_nodes is not None:
        number = isinstance(between_nodes, int | float) and not isinstance(between_nodes, bool)
        if not number or not 0 < between_nodes < inf:
            raise InputError(f"between_nodes is the Gbit/s of each GPU's network card, above 0, not {between_nodes!r}.")
        shares = replace(shares, between_nodes=float(between_nodes))
    return _overridden(Machine(ceilings, shares, gpus_per_node), assume or {})


def assumable() -> tuple[str, ...]:
    """The names of the assumptions that can be overridden."""
    return (*(one.name for one in fields(Shares) if one.name not in ("parts", "tuned")), *OWN)


def _overridden(machine: Machine, assume: Mapping[str, float]) -> Machine:
    for name, value in assume.items():
        if name not in assumable():
            hint = did_you_mean(name, assumable()) or f" There are {', '.join(assumable())}."
            raise InputError(f"A plan has no assumption {name!r}.{hint}")
        if name == "chunks":
            _check_chunks(value)
        least = "0 or more" if name in MAY_BE_NOTHING else "above 0"
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not isfinite(value) or value < 0 or (not value and least == "above 0"):
            raise InputError(f"The assumption {name} is a number, {least}, not {value!r}.")
        changed: dict[str, Any] = {name: int(value) if name == "chunks" else float(value)}
        if name in OWN:
            machine = replace(machine, **changed)
        else:
            machine = replace(machine, shares=replace(machine.shares, **changed))
    return machine


def _check_chunks(value: Any) -> None:
    """Refuse parts of a stage that cannot be counted; the command line reads 4 as 4.0."""
    whole_number("The assumption chunks", int(value) if isinstance(value, float) and value.is_integer() else value, 1)


def parse_assumptions(text: str) -> dict[str, float]:
    """Assumptions as they are written on a command line: `attention=0.5,chunks=4`."""
    found: dict[str, float] = {}
    for item in text.split(","):
        name, equals, value = (word.strip() for word in item.partition("="))
        try:
            found[name] = float(value)
        except ValueError:
            raise InputError(
                f"{item.strip()!r} is not an assumption: write name=number, as in --assume attention=0.5,chunks=4."
            ) from None
        if not equals:
            raise InputError(f"{item.strip()!r} is not an assumption: write name=number.")
    return found


def machine_words(machine: Machine) -> tuple[str, ...]:
    """What the machine is taken to be, each with the name that overrides it."""
    s = machine.shares
    basis = f"tuned on {s.tuned}" if s.tuned else "not tuned for this generation"
    lines = [
        (
            f"kernels reach {s.products:.0%} of the peak in products, {s.attention:.0%} in attention, {s.memory:.0%} of the bandwidth in "
            f"pointwise work ({basis}): products, attention, memory; convolutions {s.convolutions:.0%} of their limit, batch norm "
            f"{s.batch_norm:.0%} of the bandwidth: convolutions, batch_norm; some kinds of ops a part of these shares, as on an H200"
        ),
        (
            f"inside a node of {machine.gpus_per_node}, {units.si(machine.inside, 'B/s')} "
            f"({s.nvlink:.0%} of the datasheet): nvlink; between nodes {s.between_nodes:g} Gbit/s a GPU, "
            f"of which {s.network:.0%} is reached: between_nodes, network; {units.seconds(s.latency)} a hop: latency"
        ),
        f"of work and communication side by side, {s.overlap:.0%} of the shorter is still paid: overlap",
        (
            f"{units.size(machine.reserved)} of a GPU are the driver's and NCCL's: reserved; the allocator holds "
            f"{machine.fragments:.0%} more than what comes and goes: fragments"
        ),
    ]
    return tuple(lines)
