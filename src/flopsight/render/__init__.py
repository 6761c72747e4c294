"""A profile as text: one file a format, each imported on first use; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..files.whole_files import as_bytes
from ..results.job import Job
from .formats import Format, find_printed

if TYPE_CHECKING:
    from rich.console import Console

    from ..results.profile import Profile


@dataclass(frozen=True)
class Drawing:
    """A format with options that were checked once, ready to draw any profile, or a job of several ranks."""

    format: Format
    options: Mapping[str, Any]

    def text(self, profile: Profile | Job) -> str:
        """The profile as plain text."""
        if isinstance(profile, Job):
            from .job_page import text
            from .safe_names import safe_names

            profile = profile if self.format.verbatim else safe_names(profile)
            return text(profile, self.format, self.options)
        return self.format.text(profile, self.options)

    def contents(self, profile: Profile | Job, path: Path) -> bytes:
        """What a file of that name holds of the profile."""
        if not self.format.picture:
            return as_bytes(self.text(profile))
        from .safe_names import safe_names

        model = profile.model if isinstance(profile, Job) else profile
        with TemporaryDirectory() as folder:
            drawn = Path(folder) / path.name
            self.format.draw(safe_names(model), drawn, **self.options)
            return drawn.read_bytes()

    def show(self, profile: Profile | Job, console: Console) -> None:
        """Draw the profile on a terminal, in colour where the format is a page."""
        from .console import show

        if isinstance(profile, Job):
            from .job_page import ranks
            from .safe_names import safe_names

            if self.format.page:
                console.out(ranks(safe_names(profile)), highlight=False)
            profile = profile.model
        show(profile, self.format, console, self.options)


def prepare(format: str, **options: Any) -> Drawing:
    """Check a format and its options before any work is done.

    Options that are None count as not given; `module_depth` is the older profilers' word for `depth`.
    """
    found = find_printed(format)
    return Drawing(found, found.checked(options))


def render(profile: Profile | Job, format: str = "tree", **options: Any) -> str:
    """The profile as text in a format; see `prepare` for the options."""
    return prepare(format, **options).text(profile)
