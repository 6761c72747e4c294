"""The list of commands, and the function that runs one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .. import __version__
from .advise import advise
from .check import check
from .completion import answer_bash, bash_asks
from .demo import demo
from .device import device
from .diff import diff
from .doctor import doctor
from .merge import merge
from .ops import ops
from .plan import plan
from .profile import profile
from .run import run as run_script
from .show import show
from .sweep import sweep
from .targets import targets

GROUPS = {
    "The model": "input device dtype meta mesh rank checkpoint precision accumulate fsdp tp_plan",
    "The run": "train optimizer generate cache weights draft accept draft_length strict repeats warmup time_budget no_measure progress",
    "What is printed": "format on depth top full width sort",
    "What is saved": "output",
}
"""Options by the names of their parameters; one that no group names stands at the end, with --help."""


class GroupedHelp(TyperCommand):
    """A command whose options are listed group by group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options."""
        records = {param.name: (param, param.get_help_record(ctx)) for param in self.get_params(ctx)}
        arguments = [record for param, record in records.values() if param.param_type_name == "argument" and record]
        with formatter.section("Arguments"):
            formatter.write_dl(arguments)
        grouped = {name for names in GROUPS.values() for name in names.split()}
        others = [
            name for name, (param, _) in records.items() if param.param_type_name == "option" and name not in grouped
        ]
        for title, names in (*((title, text.split()) for title, text in GROUPS.items()), ("Beside these", others)):
            found = [records[name][1] for name in names if name in records and records[name][1]]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


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


def run_command(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what goes wrong is raised."""
    words = list(sys.argv[1:] if argv is None else argv)
    if bash_asks():
        answer_bash(lambda: app(args=[], prog_name="flopsight"))
        return 0
    code = app(args=words or ["--help"], prog_name="flopsight", standalone_mode=False)
    return code if isinstance(code, int) else 0
