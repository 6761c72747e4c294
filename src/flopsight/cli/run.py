"""`flopsight run`: a training script with no change to its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..config import Settings, parse_steps
from ..errors import InputError
from ..files.whole_files import check_writable
from ..script.output import Delivery
from ..script.run_script import profile_script
from ..script.search import UNITS, Search
from ..script.start import Program
from . import options
from .completion import complete_format

DEFAULT_STEP = 5


def run(
    words: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT [ARGS]...", help="The script and its own arguments.", show_default=False),
    ],
    module: Annotated[
        bool, typer.Option("-m", "--module", help="SCRIPT is a module, as after `python -m`.")
    ] = False,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help=f"The step to profile, counted from 0.  [default: {DEFAULT_STEP}]")
    ] = None,
    steps: Annotated[str | None, typer.Option("--steps", metavar="A-B", help="A window of steps, both included: 2-6.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="CLASS", help="The model by its class: UNet, or package.module.UNet.")
    ] = None,
    per: Annotated[
        str | None, typer.Option("--per", help="What ends a step: optimizer, or forward. The default is found out.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings: JSON, TOML or a DeepSpeed configuration."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to save the profile: a .json file.")] = None,
    format: Annotated[
        str | None, typer.Option("-f", "--format", help=options.FORMAT_HELP, autocompletion=complete_format)
    ] = None,
    monitor: Annotated[bool, typer.Option("--monitor", help="Watch every step instead: MFU, tokens/s, memory, slow steps.")] = False,
    every: Annotated[int, typer.Option("--every", min=1, help="With --monitor: steps in a line of the file.")] = 10,
) -> NoReturn:  # fmt: skip
    """Run a script and profile one of its steps. The script's output and exit code are its own; ours goes to stderr."""
    if step is not None and steps is not None:
        raise InputError("Give --step or --steps, not both.")
    if per not in (None, *UNITS):
        raise InputError(f"--per is {per!r}; it can be {' or '.join(UNITS)}.")
    if monitor:
        given = {"--step": step, "--steps": steps, "--per": per, "--config": config, "-f": format}
        raise SystemExit(_monitor(Program(words[0], tuple(words[1:]), is_module=module), model, output, every, given))
    settings = _settings(config)
    first, last = settings.window
    if step is not None:
        first = last = step
    elif steps is not None:
        first, last = parse_steps(steps, "--steps")
    program = Program(words[0], tuple(words[1:]), is_module=module)
    delivery = Delivery(
        path=Path.cwd() / (output or _default_name(program, first, last)),  # the script may go to another folder
        formats=(format,) if format else settings.formats or ("tree",),
        depth=settings.module_depth,
        top_modules=settings.top_modules,
        detailed=settings.detailed,
        text_file=None if settings.output_file is None else str(Path.cwd() / settings.output_file),
        phases=settings.phases,
        strict=settings.strict,
        budgets=settings.budgets,
    )
    # As `python` ends: what the script left in stdout, or that it closed stdout, is not ours to judge.
    raise SystemExit(profile_script(program, Search(first, last, model, per), delivery))


def _monitor(program: Program, model: str | None, output: Path | None, every: int, given: Mapping[str, object]) -> int:
    from ..script.monitored import monitor_script

    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name} chooses a step to profile, and --monitor watches them all: leave one of them out."
            )
    path = Path.cwd() / (output or f"flopsight-{program.title}-run.json")
    if path.suffix not in (".json", ".jsonl"):
        raise InputError(f"-o {output} must end in .json; `flopsight show` makes a page of it.")
    check_writable(path)
    return monitor_script(program, Search(0, 0, model), path, every)


def _settings(config: Path | None) -> Settings:
    """What a file says, or the `pyproject.toml` beside which the script is started."""
    settings = replace(Settings(), profile_step=DEFAULT_STEP)
    project = Path("pyproject.toml")
    if config is None and not project.exists():
        return settings
    return Settings.read(config or project, settings)


def _default_name(program: Program, first: int, last: int) -> str:
    steps = f"step{first}" if first == last else f"steps{first}-{last}"
    return f"flopsight-{program.title}-{steps}.json"
