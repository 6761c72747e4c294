"""Times behind the older profilers' printed rows: a print rounds latency, share and rate, so each row allows an interval of times."""

import re
from dataclasses import replace
from pathlib import Path

OLDER = Path(__file__).parent / "golden" / "older"
SCALES = {"s": 1, "ms": 1e-3, "us": 1e-6, "": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
FIGURES = re.compile(r"([\d.]+) (s|ms|us), ([\d.]+)% latency, ([\d.]+) ([KMGT]?)FLOPS")


def older_print(name):
    return (OLDER / f"{name}.txt").read_text().rstrip("\n")


def detailed_rows(text):
    """{path: (latency interval, share interval, rate interval)} of a detailed module tree."""
    rows, stack = {}, []
    for line in text.splitlines():
        opened = re.match(r"( *)\((\w+)\): \w+\(", line)
        if opened:
            level = len(opened[1]) // 2
            stack = [*stack[: level - 1], opened[2]]
        figures = FIGURES.search(line)
        if figures:
            time, unit, share, rate, prefix = figures.groups()
            rows[".".join(stack)] = (
                interval(time, SCALES[unit]), interval(share, 0.01, 2), interval(rate, SCALES[prefix])
            )  # fmt: skip
    return rows


def tids_rows(text):
    """[(level, name, kind, params, latency interval, share interval, input, output)] of a TIDS print."""
    pattern = (
        r"( *)\((\w+)\): (\w+), num_params (\d+), ([\d.]+)ms, ([\d.]+)% latency, input shape (.*), output shape (.*)"
    )
    found = (re.fullmatch(pattern, line).groups() for line in text.splitlines())
    return [
        (
            len(indent) // 8,
            name,
            kind,
            int(params),
            interval(time, 1e-3, 3),
            interval(share, 0.01, 3),
            shape(into),
            shape(out),
        )
        for indent, name, kind, params, time, share, into, out in found
    ]


def interval(text, scale, digits=2):
    """What rounds to the text."""
    half = 0.5 * 10**-digits * 0.999
    return (float(text) - half) * scale, (float(text) + half) * scale


def shape(text):
    return tuple(int(n) for n in text.strip("[]").split(", "))


def time_in(latency, share, whole, rate=None, flops=0):
    """A time that prints as the row does, or None; `whole` is the time that the share is taken of."""
    allowed = [latency, tuple(bound * whole for bound in share)]
    if flops:
        allowed.append((flops / rate[1], flops / rate[0]))
    low, high = max(low for low, _ in allowed), min(high for _, high in allowed)
    return (low + high) / 2 if low <= high else None


def with_times(root, rows):
    """The tree with a time in every node that its printed row allows, for some time of the whole that allows them all."""
    low, high = rows[""][0]
    for step in range(101):
        whole = low + (high - low) * step / 100
        times = {
            node.path: time_in(*rows[node.path][:2], whole, rows[node.path][2], node.flops) for node in root.walk()
        }
        if all(times.values()) and time_in(rows[""][0], (1, 1), whole, rows[""][2], root.flops):
            return _set(root, times | {"": whole})
    worst = [path for path, time in times.items() if time is None]
    raise AssertionError(f"no time fits the rows of {worst}")


def _set(node, times):
    return replace(node, latency=times[node.path], children=tuple(_set(child, times) for child in node.children))
