"""A sweep: one model at many sizes, each point with its profile; what it costs, and how that grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .generation import Generation
from .in_notebooks import InNotebooks
from .profile import Profile
from .read_only import FixedTables

if TYPE_CHECKING:
    from ..analysis.growth import Growth
    from ..render.pictures.sweep_lines import SweepPictures

AxisValue = str | int | float | bool | None


@dataclass(frozen=True)
class Point(FixedTables):
    """One combination of values with its profile, or its generation; if it could not be run, `error` says why."""

    values: Mapping[str, AxisValue]
    profile: Profile | None = None
    error: str = ""
    generation: Generation | None = None

    @property
    def counted(self) -> Profile | None:
        """The profile; of a generation, that of its prompt."""
        return self.generation.prefill if self.generation is not None else self.profile

    @property
    def row(self) -> dict[str, Any]:
        """The values and the figures of this point, as plain numbers."""
        from ..analysis.sweep_figures import row_of

        return row_of(self)


@dataclass(frozen=True, repr=False)
class Sweep(InNotebooks, FixedTables):
    """Every point of a sweep, in the order of its axes."""

    axes: Mapping[str, tuple[AxisValue, ...]]
    """The sizes that were asked for, by axis."""
    points: tuple[Point, ...]
    """One profile for each combination, or why there is none."""
    device: str = ""
    """The device that limits and what fits are taken against; empty if none was named."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a point: its values, then its figures."""
        from ..analysis.sweep_figures import row_of

        return [row_of(point, self.device) for point in self.points]

    def growth(self, axis: str) -> dict[str, Growth]:
        """How the FLOPs of each kind of module grow along `axis`, the other axes at their last values."""
        from ..analysis.growth import module_growth

        along = self.along(axis)
        values = [value for value, _ in along]
        return module_growth(values, [profile for _, profile in along]) if len(set(values)) > 1 else {}

    def along(self, axis: str) -> list[tuple[float, Profile]]:
        """The numbers of `axis` with their profiles, the other axes at their last values."""
        if axis not in self.axes:
            raise InputError(f"This sweep has no axis {axis!r}; it has {', '.join(self.axes)}.")
        rest = {name: values[-1] for name, values in self.axes.items() if name != axis}
        return [
            (float(value), point.counted)
            for point in self.points
            if point.counted is not None and all(point.values[name] == last for name, last in rest.items())
            if isinstance(value := point.values[axis], int | float) and not isinstance(value, bool)
        ]

    def to_frame(self) -> Any:
        """The points as a pandas DataFrame."""
        from ..render.rows import data_frame

        return data_frame(self.rows)

    def render(self, format: str = "tree", **options: Any) -> str:
        """The points and how modules grow as text ("tree") or Markdown; as LaTeX and CSV the points; or JSON, by `format`.

        One of `options` is there: `width`, the columns that the text may take.
        """
        from ..render.sweep_page import text

        return text(self, format, **options)

    def to_html(self, path: str | Path) -> Path:
        """Write the tables and the plot to `path` as a page that needs nothing beside it."""
        from ..files.whole_files import write_text
        from ..render.sweep_page import html

        return write_text(path, html(self))

    def save(self, path: str | Path) -> Path:
        """Write it to `path`: `.json`, which `flopsight.load` reads back, `.csv`, `.md`, `.tex`, `.txt`, `.html`; `.svg`, `.png`, `.pdf` plot."""
        from ..files.whole_files import write_bytes
        from ..render.sweep_page import contents

        return write_bytes(path, contents(self, Path(path)))

    @property
    def plot(self) -> SweepPictures:
        """Figures for a notebook or a paper: `s.plot.lines("latency")`."""
        from ..render.pictures.sweep_lines import SweepPictures

        return SweepPictures(self)

    @property
    def one_line(self) -> str:
        """How many points there are, and along which axes."""
        return f"{len(self.points)} points: {', '.join(f'{axis} {len(values)}' for axis, values in self.axes.items())}"

    def __repr__(self) -> str:
        return f"<Sweep of {self.one_line}>"

    def __str__(self) -> str:
        """The table of points, then the growth along every axis that has numbers."""
        return self.render().rstrip("\n")
