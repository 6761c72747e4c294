"""The settings block: DeepSpeed's `flops_profiler` key for key, some keys of our own, read and validated without torch."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import ConfigError, did_you_mean
from .files.whole_files import read_text
from .results.records import PHASES

BLOCK = "flops_profiler"
BLOCK_FORMAT = "deepspeed"
"""How DeepSpeed's block is printed unless it names formats."""
OUR_BLOCK = "flopsight"
PROJECT_TABLES = ("tool", "project", "build-system")
"""Tables that mark a file as a `pyproject.toml`."""


@dataclass(frozen=True)
class Settings:
    """What to profile and what to print; the first seven are DeepSpeed's, with its defaults."""

    enabled: bool = False
    recompute_fwd_factor: float = 0.0
    """Share of the forward pass that the user's checkpointing does again."""
    profile_step: int = 1
    """The step to profile, counted from 0."""
    module_depth: int = -1
    """How deep to print; -1 is down to the innermost modules."""
    top_modules: int = 1
    """How many modules to name at each depth."""
    detailed: bool = True
    """Whether to print the tree of modules."""
    output_file: str | None = None
    """Where to print; None is the terminal."""
    steps: tuple[int, int] | None = None
    """A window of steps, first and last, both profiled; None is `profile_step` alone."""
    formats: tuple[str, ...] = ()
    """Formats to print; empty means the default format."""
    phases: tuple[str, ...] = PHASES
    """Which parts of the step the profile holds."""
    strict: bool = False
    """Whether an op without a formula is an error."""
    budgets: Mapping[str, Any] = field(default_factory=dict)
    """Limits that the profile is held to; see `flopsight check`."""

    @property
    def window(self) -> tuple[int, int]:
        """First and last step to profile."""
        return self.steps or (self.profile_step, self.profile_step)

    @classmethod
    def from_dict(cls, block: Mapping[str, Any], source: str = BLOCK, defaults: Settings | None = None) -> Settings:
        """Settings from a block; `source` is named if something is wrong with it, `defaults` fill in the rest."""
        if not isinstance(block, Mapping):
            raise ConfigError(f"{source}: the settings are {_named(block)}, not a table of names and values.")
        for name in block:
            if name not in _CHECKS:
                raise ConfigError(
                    f"{source}: there is no setting {name!r}.{did_you_mean(str(name), _CHECKS) or _all(_CHECKS)}"
                )
        given = {name: _CHECKS[name](value, f"{source}: {name}") for name, value in block.items()}
        return replace(defaults or cls(), **given)

    @classmethod
    def read(cls, path: str | Path, defaults: Settings | None = None) -> Settings:
        """Settings from a JSON or TOML file: ours, a DeepSpeed configuration, or a pyproject with `[tool.flopsight]`."""
        path = Path(path)
        block, name = _block(_parse(path))
        if name == BLOCK:  # DeepSpeed's own defaults fill in what its block leaves out
            defaults = replace(defaults or cls(), profile_step=cls.profile_step, formats=(BLOCK_FORMAT,))
        if not name and isinstance(block, Mapping) and not _any_meant(block):
            raise ConfigError(
                f"{path} holds no settings: it has no block {BLOCK!r} or {OUR_BLOCK!r}, and none of its names is a setting."
            )
        return cls.from_dict(block, f"{path}, {name}" if name else str(path), defaults)


def read_budgets(path: str | Path) -> Mapping[str, Any]:
    """The limits in a file of budgets, or in the `budgets` of a settings file; at least one."""
    path = Path(path)
    block, name = _block(_parse(path))
    budgets = block.get("budgets", {} if name else block) if isinstance(block, Mapping) else block
    if not isinstance(budgets, Mapping) or not budgets:
        raise ConfigError(f'{path} holds no budgets. Write one a line: flops = "8.2G"')
    for name, limit in budgets.items():
        if not isinstance(limit, str | int | float) or isinstance(limit, bool):
            raise ConfigError(f'{path}: {name} is {_named(limit)}; a budget is a number or a text like "8.2G".')
    return budgets


def _parse(path: Path) -> Any:
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise ConfigError(f"There is no settings file {path}.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"The settings file {path} cannot be read: {problem}.") from None
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(_without_trailing_commas(text))
    except ValueError as problem:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigError(f"The settings file {path} is not {kind}: {problem}.") from None


def _without_trailing_commas(text: str) -> str:
    """Drop a comma before a closing bracket, as DeepSpeed's tutorial prints one; strings stay as they are."""
    return re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", text)


def _block(page: Any) -> tuple[Any, str]:
    """The settings within a file, and what they are called there."""
    if isinstance(page, Mapping):
        for name in (BLOCK, OUR_BLOCK):
            if name in page:
                return page[name], name
        if any(table in page for table in PROJECT_TABLES):
            tools = page.get("tool", {})
            return tools.get(OUR_BLOCK, {}) if isinstance(tools, Mapping) else {}, f"tool.{OUR_BLOCK}"
    return page, ""


def _any_meant(block: Mapping[str, Any]) -> bool:
    """Whether a table without a name may be settings: it is empty, or a name in it is one, or nearly."""
    return not block or any(name in _CHECKS or did_you_mean(str(name), _CHECKS) for name in block)


Check = Callable[[Any, str], Any]
"""Takes a value and its place in a file; hands the value on, or raises ConfigError with the place."""


def _must_be(wanted: str, is_so: Callable[[Any], bool]) -> Check:
    def check(value: Any, place: str) -> Any:
        if not is_so(value):
            raise ConfigError(f"{place} is {_named(value)}; it must be {wanted}.")
        return value

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(least: int) -> Check:
    return _must_be(f"a whole number, {least} or more", lambda value: _is_whole(value) and value >= least)


_flag = _must_be("true or false", lambda value: isinstance(value, bool))
_share = _must_be(
    "a number from 0 to 1", lambda value: (_is_whole(value) or isinstance(value, float)) and 0 <= value <= 1
)
_file = _must_be("the name of a file, or null", lambda value: value is None or isinstance(value, str))
_table = _must_be("a table of names and limits", lambda value: isinstance(value, Mapping))


def parse_steps(value: Any, place: str = "steps") -> tuple[int, int]:
    """The first and last step of `"2-6"`, `"5"`, `5` or `[2, 6]`."""
    given = value
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", value) if isinstance(value, str) else None
    if found:
        value = [int(found[1]), int(found[2] or found[1])]
    elif _is_whole(value):
        value = [value, value]
    is_pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_whole, value))
    if not (is_pair and 0 <= value[0] <= value[1]):
        raise ConfigError(f'{place} is {_named(given)}; it must be a first and a last step, like "2-6" or [2, 6].')
    return value[0], value[1]


def _names(value: Any, place: str) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{place} is {_named(value)}; it must be a list of names.")
    return tuple(value)


def parse_phases(value: Any, place: str = "phases") -> tuple[str, ...]:
    """The phases that a list names; at least one."""
    names = _names(value, place)
    if not names:
        raise ConfigError(f"{place} is empty; name at least one of {', '.join(PHASES)}.")
    for name in names:
        if name not in PHASES:
            raise ConfigError(f"{place}: there is no phase {name!r}.{did_you_mean(name, PHASES) or _all(PHASES)}")
    return names


_CHECKS: Mapping[str, Check] = {
    "enabled": _flag,
    "recompute_fwd_factor": lambda value, place: float(_share(value, place)),
    "profile_step": _whole(0),
    "module_depth": _whole(-1),
    "top_modules": _whole(1),
    "detailed": _flag,
    "output_file": _file,
    "steps": lambda value, place: None if value is None else parse_steps(value, place),
    "formats": _names,
    "phases": parse_phases,
    "strict": _flag,
    "budgets": _table,
}


def _named(value: Any) -> str:
    """A value as the user wrote it in JSON, short."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _all(known: Any) -> str:
    return f" There are {', '.join(sorted(known))}."
