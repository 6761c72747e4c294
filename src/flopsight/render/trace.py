"""A timeline for Chrome's and Perfetto's viewers: module spans over the ops in them, and the device's kernels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..analysis.traced_phases import traced_phases
from ..errors import InputError
from ..results.node import Node
from ..results.profile import Profile
from ..results.records import Span

STEP, HOST, DEVICE = 1, 2, 3
PROCESSES = {"phase": STEP, "module": HOST, "op": HOST, "kernel": DEVICE}
NAMES = {STEP: "step", HOST: "host", DEVICE: "device"}
"""Processes of the trace; a viewer shows them in this order. Perfetto gives number 0 to its own."""


def render(profile: Profile) -> str:
    """The timeline as JSON; FLOPs, bytes and shapes stand in the arguments.

    A module's costs are those of one forward call, in the mean over its calls, which need not be alike.
    """
    if not profile.timeline:
        raise InputError(
            "The profile has no timeline. Take one: flopsight.profile(..., timeline=True), or flopsight profile ... -o p.trace.json"
        )
    spans = _nested([*traced_phases(profile), *profile.timeline])
    events = [*_tracks(spans), *(_event(span, profile) for span in spans)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _nested(spans: Iterable[Span]) -> list[Span]:
    """The spans with none that outlasts the one of its track that it began in: two clocks took them, and viewers drop such."""
    found: list[Span] = []
    ends: dict[tuple[int, int], list[int]] = {}
    for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
        around = ends.setdefault((PROCESSES[span.kind], span.lane), [])
        while around and around[-1] <= span.begin:
            around.pop()
        found.append(replace(span, end=min([span.end, *around[-1:]])))
        around.append(found[-1].end)
    return found


def _tracks(spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    """The names and the order of processes and their tracks."""
    tracks = dict.fromkeys((PROCESSES[span.kind], span.lane) for span in spans)
    for process in sorted({process for process, _ in tracks}):
        yield _named("process_name", process, 0, name=NAMES[process])
        yield _named("process_sort_index", process, 0, sort_index=process)
    main = next((span.lane for span in spans if span.kind == "module"), None)
    for process, lane in tracks:
        name = {STEP: "phases", HOST: f"thread {lane}", DEVICE: f"stream {lane}"}[process]
        yield _named("thread_name", process, lane, name="main thread" if (process, lane) == (HOST, main) else name)


def _named(what: str, process: int, track: int, **said: object) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": said}


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
    found: dict[str, Any] = {"module": span.path} if span.kind != "phase" else {}
    if span.phase:
        found["phase"] = span.phase
    if span.shapes:
        found["shapes"] = [list(shape) for shape in span.shapes]
    if span.kind == "module" and span.path in profile:
        found |= _figures(profile[span.path])
    return found


def _figures(node: Node) -> dict[str, Any]:
    """What one call of a module costs in its forward: the mean, if it was called several times."""
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
