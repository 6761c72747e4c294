"""What a shell offers after Tab is what the command accepts, and what it accepts by name is offered."""

import inspect
import typing

import pytest
import torch
import typer

from flopsight import zoo
from flopsight.cli import completion
from flopsight.cli.app import app
from flopsight.hardware.named import named_device
from flopsight.render.formats import PRINTED, find_printed
from flopsight.targets.address import LIBRARIES, parse_address
from flopsight.targets.config_files import find_configuration
from flopsight.targets.early_checks import check_device_name, find_target
from flopsight.targets.presets import preset_names

COMMANDS = {command.callback.__name__: command.callback for command in app.registered_commands}
COMPLETED = {
    "target": completion.complete_target,
    "draft": completion.complete_target,
    "format": completion.complete_format,
    "device": completion.complete_device,
    "on": completion.complete_hardware,
}
"""Parameters whose values have names, with what offers them."""
OTHERS = {("device", "name"): completion.complete_any_device, ("diff", "format"): None}
"""Parameters with names of their own; a difference prints as text or as markdown only."""


def completers(command):
    """The parameters of a command with what completes them."""
    hints = typing.get_type_hints(command, include_extras=True)
    found = {}
    for name in inspect.signature(command).parameters:
        for extra in getattr(hints[name], "__metadata__", ()):
            found[name] = getattr(extra, "autocompletion", None)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_value_that_has_a_name_is_completed(command):
    found = completers(COMMANDS[command])
    expected = {name: COMPLETED[name] for name in found if name in COMPLETED}
    expected |= {name: offers for (one, name), offers in OTHERS.items() if one == command}

    assert {name: found[name] for name in expected} == expected
    assert {name for name, completer in found.items() if completer} <= expected.keys()


def test_what_is_offered_as_a_format_can_be_printed():
    assert set(completion.complete_format("")) == set(PRINTED)
    for name in completion.complete_format(""):
        find_printed(name)


def test_what_is_offered_as_hardware_has_peaks():
    offered = completion.complete_hardware("")

    assert len(offered) == len(set(offered)) > 10
    for name in offered:
        assert named_device(name).id == name


def test_what_is_offered_as_a_device_is_one_of_torch():
    for name in completion.complete_device(""):
        check_device_name(name)
        assert str(torch.device(name)) == name


def test_what_is_offered_as_a_target_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("from torch import nn\nmodel = nn.Identity()\n")
    kinds = completion.complete_target("")

    assert kinds == [*(f"{library}:" for library in LIBRARIES), "net.py"]
    assert find_target("net.py").name == "model"
    assert completion.complete_target("zoo:") == [f"zoo:{name}" for name in zoo.names()]
    for text in completion.complete_target("zoo:"):
        assert find_target(text).kind == "zoo"


def test_every_preset_is_offered_and_has_a_configuration():
    offered = [parse_address(text).name for text in completion.complete_target("hf:")]

    assert set(preset_names()) <= set(offered)
    for name in preset_names():
        assert find_configuration(name, {}).values["model_type"]


def test_nothing_is_offered_that_does_not_begin_as_asked():
    for complete in (
        completion.complete_target,
        completion.complete_format,
        completion.complete_device,
        completion.complete_hardware,
    ):
        assert all(one.startswith("c") for one in complete("c"))
        assert complete("nothing-begins-like-this") == []


def test_a_parameter_without_completion_is_noticed():
    def command(target: typing.Annotated[str, typer.Argument()]) -> None: ...

    assert completers(command) == {"target": None}
