"""A profile as text: one file a format, each imported on first use; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.whole_files import as_bytes
from ..results.generation import Generation
from ..results.job import Job
from ..results.profile import Profile
from .formats import Format, find_printed

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Drawing:
    """A format with options that were checked once, ready to draw any profile, a job of several ranks, or a generation."""

    format: Format
    options: Mapping[str, Any]

    def text(self, profile: Profile | Job | Generation) -> str:
        """The profile as plain text."""
        if isinstance(profile, Generation):
            from .generation_page import text as generation_text

            return generation_text(profile, self.format, self.options)
        if isinstance(profile, Job):
            from .job_page import text

            return text(profile, self.format, self.options)
        return self.format.text(profile, self.options)

    def contents(self, profile: Profile | Job | Generation, path: Path) -> bytes:
        """What a file of that name holds of the profile."""
        if not self.format.picture:
            return as_bytes(self.text(profile))
        if isinstance(profile, Generation):
            profile = profile.middle
        model = profile.model if isinstance(profile, Job) else profile
        drawn: bytes = self.format.draw(model, **self.options).encoded(path.suffix.removeprefix("."))
        return drawn

    def show(self, profile: Profile | Job | Generation, console: Console) -> None:
        """Draw the profile on a terminal, in colour if the format is a page."""
        from .console import draw, show

        width = self.options.get("width") or console.width
        if isinstance(profile, Generation):
            if self.format.name == "tree":
                from .generation_page import page

                draw(page(profile, on=self.options.get("on")), console, width)
            else:
                console.out(self.text(profile), highlight=False, end="")
            return
        if isinstance(profile, Job):
            from .job_page import ranks

            if self.format.page:
                draw(ranks(profile), console, width)
            profile = profile.model
        show(profile, self.format, console, self.options)


def prepare(format: str, **options: Any) -> Drawing:
    """Check a format and its options before any work is done.

    Options that are None count as not given; `module_depth` is the older profilers' word for `depth`.
    """
    found = find_printed(format)
    return Drawing(found, found.checked(options))


def render(profile: Profile | Job | Generation, format: str = "tree", **options: Any) -> str:
    """The profile as text in a format; see `prepare` for the options."""
    return prepare(format, **options).text(profile)
