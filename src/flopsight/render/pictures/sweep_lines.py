"""A figure of a sweep along one of its axes, a line for each combination of the others."""

from __future__ import annotations

from ...analysis.figures import BOOK
from ...errors import check_known
from ...results.sweep import Sweep
from ..palette import HUES
from ..sweep_plot import axis_text, from_the_top, lines_of
from .canvas import COLUMN, SMALL, USUAL, LogLocator, NullFormatter, NullLocator, Picture, canvas, plain, tick

MARKERS, DASHES = "osD^vPX", ("-", "--", "-.", ":")
"""What tells lines apart in grey print."""
LOG_FROM = 4.0
"""An axis is logarithmic if its largest value is so many times its smallest."""


class SweepPictures:
    """The pictures of one sweep."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep

    def lines(self, figure: str = "flops", width: float = 7.0) -> Picture:
        """A figure, `flops`, `latency`, `peak_bytes` or another of the sweep's, along the axis with most values."""
        rows, axes_names = self.sweep.rows, list(self.sweep.axes)
        known = [key for key in BOOK if any(row.get(key) for row in rows)]
        check_known(figure, known, f"This sweep has no {figure!r} to plot", "It has")
        axis, lines = lines_of(rows, axes_names, figure)
        picture, axes = canvas(width, max(2.3, 0.5 * width))
        for place, (name, points) in enumerate(lines.items()):
            colour, dash = HUES[(place + 5) % len(HUES)], DASHES[place % len(DASHES)]
            along, heights, _ = zip(*sorted(points), strict=True)
            axes.plot(
                along, heights, color=colour, linestyle=dash, marker=MARKERS[place % len(MARKERS)],
                markersize=3.5, linewidth=1.1, label=plain(name or axis),
            )  # fmt: skip
        points = [point for line in lines.values() for point in line]
        across, up = [point.x for point in points], [point.y for point in points]
        axes.set(xlabel=plain(axis), ylabel=BOOK[figure].full)
        for values, scale in ((across, axes.set_xscale), (up, axes.set_yscale)):
            if min(values) > 0 and max(values) / min(values) >= LOG_FROM:
                scale("log")
        ticks = sorted(set(across))
        axes.set_xticks(ticks, [axis_text(value) for value in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        if axes.get_yscale() == "log" and max(up) < 100 * min(up):  # powers of ten alone would be too few
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _place: tick(BOOK[figure].text(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(labelsize=SMALL)
        axes.grid(color="0.93")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(plain(f"{BOOK[figure].full} by {axis}"), fontsize=USUAL)
        if len(lines) > 1:
            side = "outside lower center" if width <= COLUMN else "outside right upper"
            handles = dict(zip(lines, axes.lines, strict=True))
            picture.legend(
                handles=[handles[name] for name in from_the_top(lines)],
                loc=side,
                fontsize=SMALL,
                frameon=False,
                ncols=2 if width <= COLUMN else 1,
            )
        return picture
