"""`flopsight profile --help` in groups: what is asked of the model, of the run, of what is printed and saved."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

GROUPS = {
    "The model": "input device dtype meta mesh rank checkpoint precision accumulate fsdp",
    "The run": "train optimizer generate cache strict repeats warmup time_budget no_measure progress",
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
