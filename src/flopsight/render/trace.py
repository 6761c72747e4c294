"""A timeline for Chrome's and Perfetto's viewers: module spans over the ops in them, and the device's kernels."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ..errors import InputError
from ..records import Span
from ..tree import Node, Profile

HOST, DEVICE = 0, 1
KINDS = {"module": HOST, "op": HOST, "kernel": DEVICE}


def render(profile: Profile) -> str:
    """The timeline as JSON; FLOPs, bytes and shapes stand in the arguments.

    A module's costs are those of its forward. Where it has several spans they are the costs of all its calls together,
    and calls need not be alike, so the arguments are named for what they are.
    """
    if not profile.timeline:
        raise InputError(
            "The profile has no timeline. Take one: flopsight.profile(..., timeline=True), or flopsight profile ... -o p.trace.json"
        )
    events = [
        _named(HOST, "host"),
        *([_named(DEVICE, "device")] if any(s.kind == "kernel" for s in profile.timeline) else []),
    ]
    spans = Counter(span.path for span in profile.timeline if span.kind == "module")
    events += [_event(span, profile, alone=spans[span.path] == 1) for span in profile.timeline]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _named(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def _event(span: Span, profile: Profile, *, alone: bool) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind,
        "pid": KINDS[span.kind],
        "tid": span.lane,
        "ts": span.begin / 1000,
        "dur": (span.end - span.begin) / 1000,
        "args": _arguments(span, profile, alone=alone),
    }


def _arguments(span: Span, profile: Profile, *, alone: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"module": span.path}
    if span.shapes:
        found["shapes"] = [list(shape) for shape in span.shapes]
    if span.kind == "module" and span.path in profile:
        node = profile[span.path]
        found |= {"kind": node.kind, "params": node.params}
        found |= _of_one_span(node) if alone else _of_several_spans(node)
    return found


def _of_one_span(node: Node) -> dict[str, Any]:
    cost = node.forward
    inputs, outputs = _shapes(node)
    return {"macs": cost.macs, "flops": cost.flops, "bytes": cost.bytes, "inputs": inputs, "outputs": outputs}


def _of_several_spans(node: Node) -> dict[str, Any]:
    """A span may also be forward work done again in backward, which is no part of the forward's costs."""
    cost = node.forward
    inputs, outputs = _shapes(node)
    return {
        "forward_calls": node.calls,
        "macs_of_all_forward_calls": cost.macs,
        "flops_of_all_forward_calls": cost.flops,
        "bytes_of_all_forward_calls": cost.bytes,
        "inputs_of_the_first_call": inputs,
        "outputs_of_the_first_call": outputs,
    }


def _shapes(node: Node) -> tuple[list[list[int]], list[list[int]]]:
    return [list(shape) for shape in node.input_shapes], [list(shape) for shape in node.output_shapes]
