"""The two pictures of docs/peers.md, from docs/data/peers.json: `python -m peers.plots`, with matplotlib."""

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from peers import page
from peers.answers import GROUPS, Answers
from peers.cases import CASES

IMAGES = page.ROOT / "docs/images"
KINDS = {"right": "#2a78b5", "wrong": "#e08a2e", "failed": "#333333", "not offered": "#e6e6e6"}


def kind(each, case):
    """Which of the four a tool's answer is."""
    answer = each.all[case]
    if answer is None:
        return "not offered"
    return "failed" if isinstance(answer, str) else "right" if each.is_right(case) else "wrong"


def matrix(tools):
    """A square for each tool and case, cases by group."""
    names = sorted(CASES, key=lambda name: GROUPS.index(CASES[name].group))
    order = list(KINDS)
    figure, axes = plt.subplots(figsize=(11, 4.4))
    axes.imshow(
        [[order.index(kind(each, case)) for case in names] for each in tools],
        cmap=ListedColormap(list(KINDS.values())), vmin=0, vmax=3, aspect="auto", interpolation="nearest",
    )  # fmt: skip
    axes.set_yticks(range(len(tools)), [each.name for each in tools])
    groups = [CASES[name].group for name in names]
    middles = {group: groups.index(group) + (groups.count(group) - 1) / 2 for group in GROUPS}
    axes.set_xticks(list(middles.values()), [f"{group}\n({groups.count(group)})" for group in middles])
    axes.tick_params(length=0)
    for place in range(1, len(names)):
        axes.axvline(place - 0.5, color="white", linewidth=2.5 if groups[place] != groups[place - 1] else 0.4)
    for place in range(1, len(tools)):
        axes.axhline(place - 0.5, color="white", linewidth=1.5)
    axes.spines[:].set_visible(False)
    handles = [Patch(color=colour, label=name) for name, colour in KINDS.items()]
    axes.legend(handles=handles, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.savefig(IMAGES / "peers-right.png", dpi=110, bbox_inches="tight")


def bars(tools):
    """What a call takes, in multiples of a forward."""
    ordered = sorted(tools, key=lambda each: each.time("warm"))
    figure, axes = plt.subplots(figsize=(9, 4.2))
    places = range(len(ordered))
    axes.barh(places, [each.time("first") for each in ordered], color="#c9c9c9", label="first call, with its import")
    colours = ["#2a78b5" if each.name == page.US else "#7aa6c8" for each in ordered]
    axes.barh(places, [each.time("warm") for each in ordered], color=colours, height=0.5, label="later calls")
    axes.set_yticks(places, [each.name for each in ordered])
    axes.set_xscale("log")
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_xlabel("multiples of a plain forward (mean of two models)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "peers-time.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    every = [Answers(name, said) for name, said in page.stored()["tools"].items()]
    matrix(every)
    bars(every)
