"""The older profilers' text read back into numbers."""

import re

UNITS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def number(text):
    """`61.71 k` is 61710; `1.28 KMACs` 1280; `25.7 ms` 0.0257; `349.1 GFLOPS` 349.1e9; `512 B` 512."""
    figure, _, unit = text.strip().partition(" ")
    return float(figure) * UNITS[re.sub(r"(MACs|FLOPS|B)$", "", unit.strip())]


def summary(text):
    """The lines of the summary: label and number."""
    lines = re.findall(r"^([A-Za-z][^:\n]*): +(\S+(?: [A-Za-z]+)?) *$", text, re.MULTILINE)
    return {label: number(value) for label, value in lines}


def aggregate(text):
    """By depth, what the aggregated profile names: {0: {"params": {"Net": 210.0}, ...}, ...}."""
    depths = {}
    for line in text.splitlines():
        if found := re.fullmatch(r"depth (\d+):", line):
            depths[int(found[1])] = here = {}
        elif found := re.fullmatch(r" {4}([\w ]+?):? +- (\{.*\})", line):
            here[found[1].strip()] = {
                kind: number(value) for kind, value in re.findall(r"'(\w+)': '([^']*)'", found[2])
            }
    return depths


ROW = re.compile(
    r"(?:\((?P<name>\w+)\): )?(?P<kind>\w+)\(\s*(?P<params>[\d.]+(?: \w)?), (?P<share>[\d.]+)% Params, (?P<macs>[\d.]+ \w+), "
    r"(?P<macs_share>[\d.]+)% MACs, (?P<latency>[\d.]+ \w+), (?P<latency_share>[\d.]+)% latency, (?P<rate>[\d.]+ \w+), "
    r"(?P<rest>[^\n]*)"
)


def tree(text):
    """The rows of the detailed profile by module name; the root's name is empty."""
    return {found["name"] or "": found.groupdict() for found in ROW.finditer(text)}
