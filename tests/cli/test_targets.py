"""What can be profiled here, and what the shell completes."""

import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from flopsight import cli
from flopsight.cli.app import run_command
from flopsight.cli.completion import complete_device, complete_format, complete_target


def test_the_overview_has_every_kind(capsys):
    assert cli.main(["targets"]) == 0
    out = capsys.readouterr().out

    for words in ("zoo:resnet18", "hf:llama-3.1-405b", "timm:NAME", "torchvision:NAME", "diffusers:NAME"):
        assert words in out


def test_a_word_lists_what_has_it_in_its_name(capsys):
    assert cli.main(["targets", "llama-3"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines[:3]] == ["hf:llama-3.1-405b", "hf:llama-3.1-70b", "hf:llama-3.1-8b"]
    assert "406 G parameters, meta-llama/Llama-3.1-405B" in lines[0]


def test_a_word_that_nothing_has_is_said(capsys):
    assert cli.main(["targets", "zzzzzz"]) == 2
    assert "Nothing here has 'zzzzzz' in its name." in capsys.readouterr().err


def test_targets_presets_formats_and_devices_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").touch()

    assert complete_target("ne") == ["net.py"]
    assert complete_target("tim") == ["timm:"]
    assert complete_target("zoo:res") == ["zoo:resnet18", "zoo:resnet50"]
    assert "hf:gpt2-xl" in complete_target("hf:gpt2")
    assert "table" in complete_format("ta")
    assert complete_device("cu") == ["cuda", "cuda:0", "cuda:1"]


ASKED = {
    "flopsight swe": "sweep",
    "flopsight profile zoo:gp": "zoo:gpt2",
    "flopsight profile hf:llama-3.1-4": "hf:llama-3.1-405b",
    "flopsight show p.json -f mark": "markdown",
    "flopsight profile zoo:gpt2 --device xp": "xpu",
    "flopsight profile zoo:gpt2 --on h200-s": "h200-sxm",
}


def protocol(shell, line):
    """What the script that typer writes for a shell puts into the environment."""
    if shell == "bash":
        return {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    return {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}


def offers(shell, text):
    """The words in an answer: bash and fish get one a line, fish with a description; zsh gets a call of _arguments."""
    if shell == "zsh":
        return [word.replace("\\\\:", ":") for word in re.findall(r'(?:\(\(|^)"(.*?)"', text, re.MULTILINE)]
    return [line.partition("\t")[0] for line in text.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("line", ASKED)
def test_every_shell_is_offered_commands_presets_formats_and_devices(shell, line, monkeypatch, capsys):
    for name, value in {"_FLOPSIGHT_COMPLETE": f"complete_{shell}", **protocol(shell, line)}.items():
        monkeypatch.setenv(name, value)

    with suppress(SystemExit):
        run_command([])

    assert offers(shell, capsys.readouterr().out) == [ASKED[line]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_answered_without_torch(shell):
    asked = {**os.environ, "_FLOPSIGHT_COMPLETE": f"complete_{shell}", **protocol(shell, "flopsight profile zoo:gp")}

    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "flopsight"], env=asked, capture_output=True, text=True
    )

    assert offers(shell, done.stdout) == ["zoo:gpt2"]
    assert "| torch\n" not in done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["zoo", ":", "res"], ["resnet18", "resnet50"]),
        (["zoo", ":"], ["lenet5"]),
        (["hf", ":", "llama-3.1-4"], ["llama-3.1-405b"]),
        (["tim"], ["timm:"]),
        (["zoo:resnet18", "--device", "cp"], ["cpu"]),
        (["zoo", ":", "resnet18", "--device", "cuda", ":"], ["0"]),
    ],
)
def test_bash_completes_a_word_that_it_has_split_at_colons(words, offered, monkeypatch, capsys):
    given = ["flopsight", "profile", *words]
    monkeypatch.setenv("_FLOPSIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(given))
    monkeypatch.setenv("COMP_CWORD", str(len(given) - 1))

    assert run_command([]) == 0
    assert capsys.readouterr().out.split()[: len(offered)] == offered
