"""Run a script or a module as `python` runs it: its own arguments, `__main__`, search path and exit code."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from ..errors import InputError
from ..targets.users import without_ours

INTERRUPTED = 130
"""The exit code that a shell reports for a program that Ctrl-C ended."""


@dataclass(frozen=True)
class Program:
    """What to run: a file, a folder or archive with a `__main__.py`, or a module as after `python -m`."""

    name: str
    args: Sequence[str] = ()
    is_module: bool = False

    @property
    def label(self) -> str:
        """Its name in a sentence."""
        return self.name if self.is_module else Path(self.name).name

    @property
    def title(self) -> str:
        """Its name in the file name of its profile."""
        return self.name if self.is_module else Path(self.name).stem


@dataclass(frozen=True)
class Ending:
    """How the script ended."""

    code: int
    problem: BaseException | None = None
    """The exception that the script did not catch."""


def start_program(program: Program) -> Ending:
    """Run the program to its end. An exception is printed as `python` prints it, without our frames."""
    compiled, main = _load(program)
    sys.modules["__main__"] = main
    try:
        exec(compiled(), vars(main))  # noqa: S102 - running the user's script is what we are asked to do
    except SystemExit as problem:
        return Ending(_exit_code(problem))
    except BaseException as problem:
        without_ours(problem)
        sys.excepthook(type(problem), problem, problem.__traceback__)
        return Ending(INTERRUPTED if isinstance(problem, KeyboardInterrupt) else 1, problem)
    return Ending(0)


def _exit_code(problem: SystemExit) -> int:
    if problem.code is None or isinstance(problem.code, int):
        return problem.code or 0
    print(problem.code, file=sys.stderr)
    return 1


def _load(program: Program) -> tuple[Callable[[], CodeType], ModuleType]:
    """Set the program's argv and search path; give a function that compiles it, and the `__main__` it runs in."""
    if program.is_module:
        _search_first(str(Path.cwd()))
        spec = _module_spec(program.name)
        sys.argv = [str(spec.origin), *program.args]
        return partial(_code_of, spec), _main(spec.origin, spec)
    path = os.path.join(Path.cwd(), program.name)  # noqa: PTH118 - `python` keeps the dots that pathlib takes out
    if not Path(path).exists():
        raise InputError(f"There is no script {program.name}.")
    sys.argv = [program.name, *program.args]
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        _search_first(str(Path(path).resolve().parent))
        loader = SourceFileLoader("__main__", path)
        source = loader.get_data(path)
        return lambda: compile(source, path, "exec", dont_inherit=True), _main(path, loader=loader)
    _search_first(path)
    found = PathFinder.find_spec("__main__", [path])
    if found is None:
        raise InputError(f"{program.name} has no __main__.py to run.")
    return partial(_code_of, found), _main(found.origin, found)


def _search_first(folder: str) -> None:
    """Put a folder first on the import path, as `python` does without `-P`."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _module_spec(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as problem:
        raise InputError(f"There is no module {name}: {problem}.") from None
    if spec is None:
        raise InputError(f"There is no module {name} that can be run from {os.getcwd()}.")  # noqa: PTH109
    return spec


def _code_of(spec: ModuleSpec) -> CodeType:
    code = spec.loader.get_code(spec.name) if spec.loader is not None else None  # type: ignore[attr-defined]
    if code is None:
        raise InputError(f"{spec.name} has no Python code to run.")
    assert isinstance(code, CodeType)
    return code


def _main(file: str | None, spec: ModuleSpec | None = None, loader: object = None) -> ModuleType:
    """Make a new `__main__`; spawned processes read in it which file to import."""
    main = ModuleType("__main__")
    main.__dict__.update(
        __annotations__={},
        __builtins__=builtins,
        __file__=file,
        __spec__=spec,
        __loader__=loader if spec is None else spec.loader,
        __package__=None if spec is None else spec.parent,
        __cached__=None if spec is None else spec.cached,
    )
    return main
