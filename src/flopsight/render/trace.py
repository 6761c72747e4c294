"""A timeline for Chrome's and Perfetto's viewers: module spans over the ops in them, and the device's kernels."""

from __future__ import annotations

import json
from typing import Any

from ..errors import InputError
from ..results.node import Node
from ..results.profile import Profile
from ..results.records import Span

HOST, DEVICE = 0, 1
PROCESSES = {"module": HOST, "op": HOST, "kernel": DEVICE}


def render(profile: Profile) -> str:
    """The timeline as JSON; FLOPs, bytes and shapes stand in the arguments.

    A module's costs are those of one forward call, in the mean over its calls, which need not be alike.
    """
    if not profile.timeline:
        raise InputError(
            "The profile has no timeline. Take one: flopsight.profile(..., timeline=True), or flopsight profile ... -o p.trace.json"
        )
    events = [
        _named(HOST, "host"),
        *([_named(DEVICE, "device")] if any(s.kind == "kernel" for s in profile.timeline) else []),
    ]
    events += [_event(span, profile) for span in profile.timeline]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _named(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def _event(span: Span, profile: Profile) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind,
        "pid": PROCESSES[span.kind],
        "tid": span.lane,
        "ts": span.begin / 1000,
        "dur": (span.end - span.begin) / 1000,
        "args": _arguments(span, profile),
    }


def _arguments(span: Span, profile: Profile) -> dict[str, Any]:
    found: dict[str, Any] = {"module": span.path}
    if span.shapes:
        found["shapes"] = [list(shape) for shape in span.shapes]
    if span.kind == "module" and span.path in profile:
        found |= _figures(profile[span.path])
    return found


def _figures(node: Node) -> dict[str, Any]:
    """What one call of a module costs in its forward: the mean, where it was called several times."""
    calls = max(1, node.calls)
    costs = {"macs": node.forward.macs, "flops": node.forward.flops, "bytes": node.forward.bytes}
    return {
        "kind": node.kind,
        "params": node.params,
        **({} if node.active_params == node.params else {"active_params": node.active_params}),
        "calls": calls,
        **{name: total / calls if total % calls else total // calls for name, total in costs.items()},
        "inputs": [list(shape) for shape in node.input_shapes],
        "outputs": [list(shape) for shape in node.output_shapes],
    }
