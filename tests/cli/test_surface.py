"""Every command and every flag that we have, written down: a new one is a decision."""

import typer.main

from flopsight.cli.app import app

SURFACE = {
    "demo": ["--output", "--no-measure"],
    "profile": [
        "TARGET", "--input", "--train", "--optimizer", "--device", "--dtype", "--meta", "--mesh", "--rank",
        "--checkpoint", "--precision", "--accumulate", "--fsdp", "--tp-plan", "--generate", "--cache", "--weights", "--draft", "--accept", "--draft-length", "--strict", "--repeats", "--warmup", "--time-budget",
        "--output", "--format", "--depth", "--top", "--full", "--width", "--sort", "--on", "--progress", "--no-measure",
    ],
    "sweep": ["TARGET", "AXIS=VALUES...", "--input", "--train", "--meta", "--device", "--dtype", "--optimizer", "--mesh", "--generate", "--on", "--repeats", "--output", "--progress"],
    "targets": ["[WORD]"],
    "show": ["PROFILE...", "--format", "--depth", "--top", "--full", "--width", "--sort", "--on", "--columns", "--output"],
    "advise": ["PROFILE", "--on"],
    "diff": ["BEFORE", "AFTER", "--fail-on", "--tolerance", "--format", "--output"],
    "check": ["PROFILE", "--budget"],
    "merge": ["FOLDER", "--output", "--format", "--depth", "--top", "--full", "--width", "--sort"],
    "ops": ["[TARGET]", "--input", "--train", "--meta"],
    "doctor": ["--device", "--json"],
    "device": ["[DEVICE]", "--peak", "--measure"],
    "run": ["SCRIPT [ARGS]...", "--module", "--step", "--steps", "--model", "--per", "--config", "--output", "--format", "--monitor", "--every"],
    "plan": [
        "TARGET", "--gpus", "--on", "--batch", "--seq", "--input", "--mesh", "--micro-batch", "--accumulate", "--checkpoint", "--precision", "--optimizer",
        "--compile", "--fsdp", "--gpus-per-node", "--between-nodes", "--assume", "--serve", "--prompt", "--new", "--top", "--width", "--output", "--progress",
    ],
}  # fmt: skip
SHORT = {"--output": "-o", "--input": "-i", "--format": "-f", "--module": "-m"}


def commands():
    return typer.main.get_command(app).commands


def name(parameter):
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.metavar


def test_the_commands_and_their_flags_are_these():
    assert {
        title: [name(p) for p in command.params if p.name != "help"] for title, command in commands().items()
    } == SURFACE


def test_the_short_flags_are_these_everywhere():
    for command in commands().values():
        for parameter in command.params:
            short = [opt for opt in parameter.opts if opt.startswith("-") and not opt.startswith("--")]
            assert short == ([SHORT[name(parameter)]] if name(parameter) in SHORT else []), (
                command.name,
                parameter.opts,
            )


def test_every_command_and_flag_has_a_help_text():
    for command in commands().values():
        assert command.help
        for parameter in command.params:
            assert parameter.help, (command.name, parameter.name)
