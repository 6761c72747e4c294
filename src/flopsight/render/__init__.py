"""A profile as text: one file a format, each imported on first use; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import write_text
from ..job import Job
from .formats import Format, find_printed

if TYPE_CHECKING:
    from rich.console import Console

    from ..tree import Profile


@dataclass(frozen=True)
class Drawing:
    """A format with options that were checked once, ready to draw any profile, or a job of several ranks."""

    format: Format
    options: Mapping[str, Any]

    def text(self, profile: Profile | Job) -> str:
        """The profile as plain text."""
        if isinstance(profile, Job):
            from .job import text
            from .safe_names import safe_names

            profile = profile if self.format.verbatim else safe_names(profile)
            return text(profile, self.format, self.options)
        return self.format.text(profile, self.options)

    def write(self, profile: Profile | Job, path: Path) -> None:
        """Write the profile to a file."""
        if self.format.picture:
            from .safe_names import safe_names

            model = profile.model if isinstance(profile, Job) else profile
            self.format.draw(safe_names(model), path, **self.options)
        else:
            write_text(path, self.text(profile))

    def show(self, profile: Profile | Job, console: Console) -> None:
        """Draw the profile on a terminal, in colour where the format is a page."""
        from .console import show

        if isinstance(profile, Job):
            from .job import ranks
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
