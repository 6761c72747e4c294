"""docs/peers.md from docs/data/peers.json: tables, and in words where another tool is better than flopsight."""

from __future__ import annotations

import json
from pathlib import Path

from peers.answers import GROUPS, Answers
from peers.tools import TOOLS

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs/data/peers.json"
PAGE = ROOT / "docs/peers.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- peers: written by `make peers` -->\n", "<!-- end of peers -->"
US = "flopsight"


def stored() -> dict:
    """What the tools answered last."""
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {"tools": {}}


def store(found: dict) -> None:
    """Keep what the tools answered."""
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write(found: dict) -> None:
    """Write the page, and the table of the README."""
    PAGE.write_text(text(found), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), found), encoding="utf-8")


def with_table(readme: str, found: dict) -> str:
    """The README with a table of what was measured."""
    tools = {name: Answers(name, said) for name, said in found["tools"].items()}
    us = tools[US]
    words = (
        f"What {len(tools) - 1} ways of counting answer to {len(us.forward)} forwards and {len(us.training)} training steps whose "
        "products are known by arithmetic, and what a call of each takes in multiples of a plain forward (CPU, one thread).\n"
    )
    rows = [(summary(each)[0], *summary(each)[2:7], f"{each.time('warm'):.2f}x") for each in tools.values()]
    head = ("tool", "forward right", "training right", "silent 0", "fails", "furthest off", "a call takes")
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}\n{words}\n{table([head, *rows])}\n{END}{rest.partition(END)[2]}"


def text(found: dict) -> str:
    """The whole page."""
    tools = {name: Answers(name, said) for name, said in found["tools"].items()}
    us = tools[US]
    parts = [
        HEAD.format(
            tools=len(tools) - 1,
            forward=len(us.forward),
            training=len(us.training),
            torch=us.said["versions"]["torch"],
            python=us.said["versions"]["python"],
        ),
        table(
            [
                (
                    "tool",
                    "version",
                    "forward right",
                    "training right",
                    "silent 0",
                    "fails",
                    "furthest off",
                    "training by",
                ),
                *(summary(each) for each in tools.values()),
            ]
        ),
        not_asked(tools),
        PICTURES,
        "## By kind of case\n",
        table([("tool", *GROUPS), *((name, *(each.share(group) for group in GROUPS)) for name, each in tools.items())]),
        "\n## What it takes\n\n" + HOW_TIMED,
        table(
            [
                ("tool", "first call", "later calls", "memory", "latency shown / true"),
                *(costs(each) for each in tools.values()),
            ]
        ),
        "\n## Where another tool is better\n\n" + "\n".join(f"- {line}" for line in better(tools)),
        "\n## What each gets wrong\n\n" + WRONG,
        *(f"<details><summary>{name}</summary>{faults(each)}</details>\n" for name, each in tools.items()),
        "\n" + RULES,
    ]
    return "\n".join(parts)


def not_asked(tools: dict[str, Answers]) -> str:
    """Which tools have an adapter and no answers yet."""
    missing = [name for name in TOOLS if name not in tools]
    return f"Not asked in the last run: {', '.join(missing)}.\n" if missing else ""


def table(rows: list[tuple]) -> str:
    """A table in Markdown, its first row as the head."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"


def summary(each: Answers) -> tuple:
    offers = any(answer is not None for answer in each.training.values())
    return (
        f"**{each.name}**" if each.name == US else each.name,
        each.said["versions"]["tool"],
        f"{each.right(each.forward)} of {len(each.forward)}",
        f"{each.right(each.training)} of {len(each.training)}" if offers else "not offered",
        each.zeros(),
        each.failed(),
        each.worst(),
        each.rule(),
    )


def costs(each: Answers) -> tuple:
    """Over the timed models, in turns with the plain forward."""
    return (
        each.name,
        f"{each.time('first'):.1f}x",
        f"{each.time('warm'):.2f}x",
        f"{each.time('memory_mb'):.0f} MB",
        each.latencies(),
    )


def better(tools: dict[str, Answers]) -> list[str]:
    """What flopsight is beaten in, tool by tool, by what was measured here."""
    us = tools[US]
    lines = []
    for name in ("first", "warm", "memory_mb"):
        ahead = sorted((each.time(name), each.name) for each in tools.values() if each.time(name) < us.time(name))
        if ahead:
            said = ", ".join(f"{tool} {shown(name, value)}" for value, tool in ahead)
            lines.append(f"{WHAT[name]}: {said}; flopsight {shown(name, us.time(name))}.")
    nearer = [
        f"{each.name} ({model}: {each.latency(model):.3f}, flopsight {us.latency(model):.3f})"
        for each in tools.values()
        for model in us.said["times"]
        if each.name != US and each.latency(model) and abs(each.latency(model) - 1) < abs(us.latency(model) - 1)
    ]
    if nearer:
        lines.append(f"A latency nearer to the true one: {', '.join(nearer)}.")
    missed = [case for case in us.all if not us.is_right(case)]
    lines += [
        f"{case}: right in {', '.join(e.name for e in tools.values() if e.is_right(case))}, not here."
        for case in missed
    ]
    return [*lines, *OTHER_QUESTIONS]


def shown(name: str, value: float) -> str:
    return f"{value:.0f} MB" if name == "memory_mb" else f"{value:.2f}x"


def faults(each: Answers) -> str:
    """The cases in which a tool is not right, as ratios of its answer to the right one."""
    wrong = [case for case, answer in each.all.items() if answer is not None and not each.is_right(case)]
    if not wrong:
        return "<p>Nothing in these cases.</p>"
    ratios = {case: each.ratio(case) for case in wrong}
    silent = [case for case in wrong if ratios[case] == "0"]
    failing = [case for case in wrong if ratios[case] == "fails"]
    others = [f"{case}: {ratios[case]}" for case in wrong if case not in silent and case not in failing]
    kinds = (("0", silent), ("fails", failing), ("off", others))
    return "".join(f"<p><b>{head}, {len(names)} cases:</b> {'; '.join(names)}</p>" for head, names in kinds if names)


WHAT = {
    "first": "A quicker first call",
    "warm": "Quicker later calls",
    "memory_mb": "Less memory beside the forward's own",
}
HEAD = """# Beside other tools

Written by `make peers`; every answer is in [peers.json](data/peers.json). {tools} other counters, each in an environment of its
own over the same torch {torch} (Python {python}, CPU, one thread), are asked for the multiply-accumulates of {forward} forwards and
{training} training steps. The truth is arithmetic that stands in the case
([tests/peers](../tests/peers/cases.py)), never an answer of ours. *Right* is within 2 % of it: biases, norms and activations are below that in every
case, so a counter that adds them is right too, and where conventions differ (the masked half of attention, what a fused backward
computes again) each of them is. Every question has a process of its own. *Silent 0* is how often a tool
says that nothing is multiplied, *furthest off* its worst answer above 0 over the right one.
"""
PICTURES = """
![Every tool and every case: right, wrong, failed, not offered](images/peers-right.png)
"""
HOW_TIMED = """Multiples of a plain forward in the same process, medians of three turns, then the mean of two models (ResNet-50 on one image of
224 x 224, which computes, and of 32 x 32, which waits for Python). *First call* has the import of the tool in it. Time is the processor's, so that others
on the machine do not count; ratios move by some 10 % between runs. Memory is the growth of the process's peak over a plain forward's.
*Latency shown* is the time that a tool reports for a forward over the median wall time of plain forwards in a row, before and after, for each of the
two models; on a CPU it moves by some 5 %. [What measuring costs](benchmarks.md) has those of a GPU.

![What a call takes](images/peers-time.png)
"""
WRONG = """A number is the tool's answer over the right one.
"""
RULES = """## How a tool was asked

By the function that its own documentation begins with ([tests/peers/tools.py](../tests/peers/tools.py)), in eval mode without gradients
unless the case says otherwise. ptflops has two backends, and both are here. FLOPs of FlopCounterMode, torch.profiler and torchlens's training
figure are halved. DeepSpeed's and flops-profiler's reports charge backward with twice the forward, calflops has a switch that does. Lazy layers were
given their shape by a plain forward first. `make peers ONLY="thop fvcore"` asks these two again, `make peers ONLY=page` only writes the page.
"""
OTHER_QUESTIONS = (
    "torch.profiler shows every op of a whole program on a timeline, and on a GPU every kernel; here it is asked for FLOPs and time only.",
    "torchlens keeps every intermediate result for you to look at; here it is asked for its counts only.",
    "FlopCounterMode and torch.profiler come with torch: nothing is installed.",
)
