"""A plan's options as bars: memory by kind against what a GPU has, or the parts of the predicted step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ... import units
from ...results.plan import Plan, PlanOption
from ..plan_page import coloured, label
from .canvas import SMALL, USUAL, Picture, canvas, legend, plain, tick


class PlanPictures:
    """The pictures of one plan: a bar for each of its first `top` options, the best on top."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def memory(self, top: int = 8, width: float = 7.0) -> Picture:
        """Memory of the fullest GPU by kind; a line marks what a GPU has free."""
        shown = self.plan.options[:top]
        picture = _bars(self.plan, "Memory", shown, [option.memory for option in shown], units.size, width)
        room = self.plan.best.room
        axes = picture.axes[0]
        axes.axvline(room, color="black", linewidth=0.9, linestyle="--")
        axes.annotate(
            f"{units.size(room)} free", (room, 1), (-3, -2), xycoords=axes.get_xaxis_transform(),
            textcoords="offset points", ha="right", va="top", rotation=90, fontsize=SMALL,
        )  # fmt: skip
        return picture

    def step(self, top: int = 8, width: float = 7.0) -> Picture:
        """The predicted step of each option, divided by its samples, by what takes the time."""
        shown = self.plan.options[:top]
        parts = [{name: spent / option.samples for name, spent in option.parts.items()} for option in shown]
        return _bars(self.plan, "Predicted step a sample", shown, parts, units.seconds, width)


def _bars(
    plan: Plan, what: str, shown: Sequence[PlanOption], parts: Sequence[Mapping[str, float]],
    say: Callable[[float], str], width: float,
) -> Picture:  # fmt: skip
    picture, axes = canvas(width, 0.9 + 0.24 * len(shown))
    hues = coloured(parts)
    rows = range(len(shown))
    begins = [0.0] * len(shown)
    for name, hue in hues.items():
        sizes = [found.get(name, 0) for found in parts]
        axes.barh(rows, sizes, left=begins, color=hue, height=0.72, linewidth=0)
        begins = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    for row, whole in zip(rows, begins, strict=True):
        axes.annotate(say(whole), (whole, row), (3, 0), textcoords="offset points", va="center", fontsize=SMALL)
    axes.set_yticks(rows, [plain(label(plan, option)) for option in shown])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max([*begins, *(option.room for option in shown if say is units.size)]))
    axes.xaxis.set_major_formatter(lambda value, _place: tick(say(value)))
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    titles = (f"{what}: {plan.target} on {plan.device}", f"{what}, {plan.device}", what)
    axes.set_title(picture.fitted(titles, 0.75 * width), fontsize=USUAL)
    legend(picture, hues)
    return picture
