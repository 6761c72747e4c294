"""What a target on the command line can be, and what is said when it is something else."""

import pytest
import torch

from flopsight import zoo
from flopsight.errors import InputError
from flopsight.script.search import Search
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target
from flopsight.targets.users import TargetRaised, users_traceback

FILE = """
import torch
from torch import nn
from neighbour import WIDTH

class Net(nn.Linear):
    def __init__(self):
        super().__init__(WIDTH, 2)

def model():
    return Net()

def with_input():
    return Net(), torch.ones(3, WIDTH)

def with_args():
    return Net(), (torch.ones(4, WIDTH),)

def with_kwargs():
    return Net(), {"input": torch.ones(5, WIDTH)}

def with_both():
    return Net(), (torch.ones(6, WIDTH),), {}

def too_much():
    return Net(), 1, 2, 3

def broken():
    return missing_name

def no_model():
    return 3

instance = Net()

class Holder:
    inner = instance

number = 3
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A user's folder, and in it what the tests of this file name."""
    (tmp_path / "net.py").write_text(FILE)
    (tmp_path / "neighbour.py").write_text("WIDTH = 8\n")
    (tmp_path / "unguarded.py").write_text("import sys\nsys.exit('needs --config')\nmodel = None\n")
    (tmp_path / "needs.py").write_text("import not_installed_anywhere\nmodel = None\n")
    (tmp_path / "syntax.py").write_text("def (\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


X = parse_inputs(["7x8"])


@pytest.mark.parametrize(
    "text",
    ["net.py:model", "net.py:Net", "net.py:instance", "net.py", "net:model", "./net.py:model", "net.py:Holder.inner"],
)
def test_a_model_a_class_or_a_factory_in_a_file_or_a_module(text):
    target = load_target(text, X)

    assert type(target.model).__name__ == "Net"
    assert target.args[0].shape == (7, 8)
    target.model(*target.args)


@pytest.mark.parametrize(("name", "batch"), [("with_input", 3), ("with_args", 4), ("with_both", 6)])
def test_a_factory_may_bring_its_inputs(name, batch):
    assert load_target(f"net.py:{name}").args[0].shape == (batch, 8)


def test_a_factory_may_bring_keyword_inputs():
    assert load_target("net.py:with_kwargs").kwargs["input"].shape == (5, 8)


def test_inputs_on_the_command_line_go_before_the_factorys():
    target = load_target("net.py:with_kwargs", X)

    assert target.args[0].shape == (7, 8)
    assert not target.kwargs


@pytest.mark.parametrize("name", zoo.names())
def test_every_embedded_model_is_a_target(name):
    target = load_target(f"zoo:{name}", meta=True)

    assert all(parameter.is_meta for parameter in target.model.parameters())


def test_a_dtype_is_that_of_the_model_and_its_floating_inputs():
    target = load_target("net.py:with_input", dtype="bfloat16")

    assert target.model.weight.dtype == target.args[0].dtype == torch.bfloat16


def test_ids_keep_their_dtype():
    target = load_target("zoo:gpt2", parse_inputs(["1x4:int64"]), dtype="bfloat16", meta=True)

    assert target.model.wte.weight.dtype == torch.bfloat16
    assert target.args[0].dtype == torch.int64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nowhere.py:model", "There is no file nowhere.py."),
        ("net.py:modle", "net.py has no 'modle'. Did you mean 'model'?"),
        ("net.py:zzzzzz", "It has Net, model, with_input"),
        ("net.py:number", "net.py:number is of type int, not a torch.nn.Module"),
        ("net.py:no_model", "net.py:no_model is of type int, not a torch.nn.Module"),
        ("net.py:too_much", "returned 4 things"),
        ("net.py:model", "net.py:model comes without inputs. Say them with -i: 8x3x224x224"),
        ("nomodule:model", "There is no module 'nomodule'"),
        ("resnet18", "'resnet18' names no model. Did you mean 'zoo:resnet18'? A target is file.py:Class"),
        ("zoo:resnet81", "no embedded model 'resnet81'"),
    ],
)
def test_a_wrong_target_is_answered_in_one_sentence(text, said):
    with pytest.raises(InputError) as problem:
        load_target(text)

    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_device_that_is_not_here_is_named():
    with pytest.raises(InputError, match="There is no device 'nonsense' here"):
        load_target("net.py:with_input", device="nonsense")


@pytest.mark.parametrize("device", ["vulkan", "privateuseone"])
def test_a_device_that_torch_is_built_without_is_one_short_sentence(device):
    """Neither is in any torch that pip installs; of the first, torch would name every backend that it has."""
    with pytest.raises(InputError) as problem:
        load_target("net.py:with_input", device=device)

    assert str(problem.value) == (
        f"There is no device {device!r} here: this torch is built without it. See `flopsight device`."
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("net.py:broken", NameError),
        ("unguarded.py:model", SystemExit),
        ("needs.py:model", ModuleNotFoundError),
        ("needs:model", ModuleNotFoundError),
        ("syntax.py:model", SyntaxError),
    ],
)
def test_what_the_users_code_raises_stays_the_users(text, kind):
    with pytest.raises(TargetRaised) as problem:
        load_target(text)

    assert type(problem.value.cause) is kind


def test_the_users_traceback_has_the_users_frames_and_none_of_ours():
    with pytest.raises(TargetRaised) as problem:
        load_target("net.py:broken")

    text = users_traceback(problem.value.cause)

    assert "net.py" in text
    assert "return missing_name" in text
    assert "flopsight/targets" not in text
    assert "importlib" not in text


def test_our_frames_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("FLOPSIGHT_TRACEBACK", "1")
    with pytest.raises(TargetRaised) as problem:
        load_target("net.py:broken")

    assert "flopsight/targets/code.py" in users_traceback(problem.value.cause)


def test_a_call_that_fails_before_it_enters_the_users_code_shows_no_frame_of_ours():
    with pytest.raises(AttributeError) as problem:
        Search(0, 0).admits(None)  # stands for any call that we make and that raises at once
    problem.value.__traceback__ = problem.value.__traceback__.tb_next

    text = users_traceback(problem.value)

    assert "flopsight" not in text
    assert text.startswith("AttributeError: ")
