"""What a profile has beside counts, tried out on this machine: marks, traces, memory, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

from ..capture.hooks import internals
from ..engine.measure import profile
from ..results.records import OUTSIDE
from .checkup import Checked, tried

GROUP = "facilities"
Facility = Callable[[torch.device], tuple[bool, str]]


def two_layers(device: torch.device) -> tuple[nn.Module, torch.Tensor]:
    """A small model and its input."""
    return nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 8)).to(device), torch.ones(16, 32, device=device)


def marks(device: torch.device) -> tuple[bool, str]:
    """Every module has a forward and a backward time."""
    model, x = two_layers(device)
    made = profile(model, (x,), train=True, warmup=1, repeats=2)
    modules = [node for node in made.walk() if node.path != OUTSIDE]
    missing = [node.path or "<model>" for node in modules if not (node.latency and node.backward_latency)]
    if missing:
        return False, f"no time for {', '.join(missing)}"
    return True, "every module has forward and backward times"


def traces(device: torch.device) -> tuple[bool, str]:
    """A traced run has spans of modules and ops, and of kernels on a device."""
    model, x = two_layers(device)
    made = profile(model, (x,), latency=False, timeline=True)
    kinds = {span.kind for span in made.timeline or ()}
    wanted = {"module", "op"} | ({"kernel"} if device.type != "cpu" else set())
    doubts = " ".join(str(doubt) for doubt in made.caveats if "timeline" in str(doubt))
    return wanted <= kinds, doubts or f"spans of {', '.join(sorted(kinds)) or 'nothing'}"


def memory(device: torch.device) -> tuple[bool, str]:
    """The peak holds at least the parameters, the input and what is saved."""
    model, x = two_layers(device)
    made = profile(model, (x,), train=True, latency=False)
    least = 4 * (sum(p.numel() for p in model.parameters()) + 16 * 64)
    peak = made.peak_bytes or 0
    return peak >= least, f"a peak of {peak:,} bytes; parameters and activations are {least:,}"


def no_trace(device: torch.device) -> tuple[bool, str]:
    """Modes, random numbers and the patched call are as they were."""
    model, x = two_layers(device)
    before = nn.Module.__call__, internals.dispatch_depth(), torch.get_rng_state()
    profile(model, (x,), train=True, warmup=1, repeats=1)
    same = nn.Module.__call__ is before[0] and internals.dispatch_depth() == before[1]
    same = same and torch.equal(torch.get_rng_state(), before[2])
    clean = all(p.grad is None for p in model.parameters())
    return same and clean, "everything is as it was" if same and clean else "a profile changed the process or the model"


FACILITIES: dict[str, tuple[Facility, str]] = {
    "marks": (marks, "times of modules"),
    "traces": (traces, "timelines, and kernel times on a device"),
    "memory": (memory, "peak memory"),
    "no trace": (no_trace, "everything after the profile"),
}
"""Each facility, and the figures that need it."""


def facilities(device: torch.device) -> Iterator[Checked]:
    """Try every facility out."""
    for name, (facility, touches) in FACILITIES.items():
        yield tried(GROUP, name, touches, partial(facility, device))
