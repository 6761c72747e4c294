"""The list of commands, and the function that runs one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from .. import __version__
from .advise import advise
from .check import check
from .completion import answer_bash, bash_asks
from .demo import demo
from .device import device
from .diff import diff
from .doctor import doctor
from .help_groups import GroupedHelp
from .merge import merge
from .ops import ops
from .plan import plan
from .profile import profile
from .run import run as run_script
from .show import show
from .sweep import sweep
from .targets import targets

UsageProblem: type[Any] = typer.BadParameter.__mro__[2]
"""The base of what is raised for wrong usage; newer typers carry click inside themselves, so it has no public name."""

app = typer.Typer(
    name="flopsight",
    help="Where a PyTorch model's parameters, MACs, FLOPs, bytes, activations and time go, module by module.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
WORDS_ARE_ANSWERED = {"allow_extra_args": True}
"""A second word after a target is answered with what a target is."""

app.command()(demo)
app.command(cls=GroupedHelp, context_settings=WORDS_ARE_ANSWERED)(profile)
for command in (show, advise, diff, check, merge, ops, device, doctor):
    app.command()(command)
app.command()(plan)
app.command()(sweep)
app.command()(targets)
# options after the script's name are the script's own
app.command("run", context_settings={"allow_interspersed_args": False})(run_script)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"flopsight {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Where a PyTorch model's parameters, MACs, FLOPs, bytes, activations and time go, module by module."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what goes wrong is raised."""
    words = list(sys.argv[1:] if argv is None else argv)
    if bash_asks():
        answer_bash(lambda: app(args=[], prog_name="flopsight"))
        return 0
    code = app(args=words or ["--help"], prog_name="flopsight", standalone_mode=False)
    return code if isinstance(code, int) else 0
