"""The formats a profile can be drawn in: each one value in `FORMATS`, its code in a file that is imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from ..errors import InputError, check_known, did_you_mean, whole_number
from ..results.profile import Profile

DEEPEST = -1
"""The older profilers' number for: down to the deepest module."""


@dataclass(frozen=True)
class Format:
    """One way to draw a profile."""

    name: str
    code: str
    """`module:function` inside flopsight: takes the profile, then options by keyword; returns text, a `Page` or a `Picture`."""
    page: bool = False
    """The function returns a `Page`, which the terminal shows in colour and every other output as plain text."""
    top: str | None = None
    """The option that `--top` sets; None if the format always shows everything."""
    suffix: str = ""
    """Output files that end like this are written in this format."""
    needs_timeline: bool = False
    """The profile must have been taken with `timeline=True`."""
    file_only: bool = False
    """Written to a file, never printed."""
    picture: bool = False
    """The function returns a `Picture`, for files called after the format: `icicle.svg`, `resnet.icicle.png`."""

    @property
    def draw(self) -> Callable[..., Any]:
        """The function that draws it."""
        module, _, function = self.code.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"flopsight.{module}"), function)
        return found

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that it takes."""
        keywords = signature(self.draw).parameters.items()
        names = tuple(name for name, option in keywords if option.kind is Parameter.KEYWORD_ONLY)
        return (*names, "width") if self.page else names

    def text(self, profile: Profile, options: Mapping[str, Any]) -> str:
        """The profile as text; the options are those that `checked` returned."""
        if not self.page:
            text: str = self.draw(profile, **options)
            return text
        from .plain import plain

        given = dict(options)
        width = given.pop("width", None)
        return plain(self.draw(profile, **given), width)

    def checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that are not None, under our names; refuses a wrong name or number."""
        given = {name: value for name, value in options.items() if value is not None}
        _check_numbers(given)
        if "module_depth" in given:
            given["depth"] = given.pop("module_depth")
        if given.get("depth") == DEEPEST:
            del given["depth"]
        known = self.options
        for name in given:
            if name not in known:
                takes = f"It takes {', '.join(known)}." if known else "It takes none."
                raise InputError(f"The format {self.name} has no option {name!r}.{did_you_mean(name, known)} {takes}")
        return given


FORMATS = {
    known.name: known
    for known in (
        Format("tree", "render.tree:page", page=True, top="max_rows"),
        Format("table", "render.table:page", page=True, top="max_rows"),
        Format("bound", "render.bound:page", page=True, top="max_rows"),
        Format("memory", "render.memory:page", page=True, top="max_rows"),
        Format("deepspeed", "render.deepspeed_page:render", top="top_modules"),
        Format("tids", "render.tids_page:render"),
        Format("aprofiler", "render.aprofiler_page:render", top="top_modules"),
        Format("markdown", "render.markdown:render", top="max_rows", suffix=".md"),
        Format("latex", "render.latex:render", top="max_rows", suffix=".tex"),
        Format("json", "files.store:dumps", suffix=".json"),
        Format("csv", "render.rows:render", suffix=".csv"),
        Format("trace", "render.trace:render", suffix=".trace.json", needs_timeline=True),
        Format("html", "render.html:render", suffix=".html", file_only=True),
        Format("icicle", "render.pictures:icicle", file_only=True, picture=True),
        Format("roofline", "render.pictures:roofline", file_only=True, picture=True),
        Format("curve", "render.pictures:curve", file_only=True, picture=True),
        Format("timeline", "render.pictures:timeline", file_only=True, picture=True, needs_timeline=True),
    )
}
"""Every format by name. To add one: write its file, add its line."""
PRINTED = tuple(name for name, known in FORMATS.items() if not known.file_only)
"""The names that `-f` and `Profile.render` take."""
TEXT_SUFFIX = ".txt"
"""A file that ends like this holds what is printed."""
SUFFIXES = (".json", TEXT_SUFFIX, *(known.suffix for known in FORMATS.values() if known.suffix not in ("", ".json")))
PICTURE_SUFFIXES = (".svg", ".png", ".pdf")
PICTURES = {"memory" if name == "curve" else name: name for name, known in FORMATS.items() if known.picture}
"""The formats of pictures, by what `p.plot` calls them."""


def find(name: str) -> Format:
    """The format of that name; one sentence with the nearest name if there is none."""
    if name not in FORMATS:
        check_known(name, PRINTED, f"There is no format {name!r}", "Formats:")
    return FORMATS[name]


def find_printed(name: str) -> Format:
    """The format of that name, if it can be printed."""
    found = find(name)
    if found.picture:
        raise InputError(f"The format {name} is a picture, not text to print: flopsight show FILE -o {name}.svg")
    if found.file_only:
        raise InputError(
            f"The format {name} is a file, not text to print: flopsight show FILE -o page{found.suffix}, "
            f'or profile.to_html("page{found.suffix}").'
        )
    return found


def find_by_suffix(path: Path) -> Format | None:
    """The format that a file's name asks for: the longest suffix counts. None for `.txt`."""
    if path.suffix == TEXT_SUFFIX:
        return None
    if path.suffix in PICTURE_SUFFIXES:
        return _find_picture(path)
    fitting = [known for known in FORMATS.values() if known.suffix and path.name.endswith(known.suffix)]
    if not fitting:
        *names, last = PICTURES
        *suffixes, other = PICTURE_SUFFIXES
        raise InputError(
            f"The suffix of -o {path} says no format; it can be {', '.join(SUFFIXES)}, or a picture: {', '.join(names)} or {last} "
            f"with {', '.join(suffixes)} or {other}."
        )
    return max(fitting, key=lambda known: len(known.suffix))


def _find_picture(path: Path) -> Format:
    """The picture that a file is called after: `icicle.svg`, `resnet.icicle.svg`."""
    name = path.stem.rpartition(".")[2]
    name = PICTURES.get(name, name)
    if name not in PICTURES.values():
        *names, last = (f"{known}{path.suffix}" for known in PICTURES)
        raise InputError(
            f"-o {path} does not say which picture; name the file {', '.join(names)} or {last}, with any text and a dot before it."
        )
    return FORMATS[name]


def _check_numbers(given: Mapping[str, Any]) -> None:
    for name in ("depth", "module_depth"):
        if given.get(name, DEEPEST) != DEEPEST:
            whole_number(name, given[name], 0, f" or {DEEPEST} for the deepest")
    if "top_modules" in given:
        whole_number("top_modules", given["top_modules"], 0)
