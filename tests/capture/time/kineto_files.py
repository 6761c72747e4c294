"""Traces that torch's profiler wrote on an H200 with NCCL (one rank), less the fields that are not read; as plain events."""

import json
from pathlib import Path

from flopsight.capture.time.kernels import TraceEvent

FOLDER = Path(__file__).parent / "traces"
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def events_of(name):
    """The events of a recorded trace, in nanoseconds."""
    found = json.loads((FOLDER / f"{name}.json").read_text())["traceEvents"]
    return [_event(raw) for raw in found if raw["cat"] != "gpu_user_annotation"]


def _event(raw):
    args, begin = raw["args"], round(raw["ts"] * 1000)
    return TraceEvent(
        raw["name"],
        begin,
        begin + round(raw["dur"] * 1000),
        raw["cat"] in ON_DEVICE,
        raw["tid"],
        args.get("correlation", args.get("External id", 0)),
        args.get("External id", 0),
        args.get("Sequence number", -1),
    )
