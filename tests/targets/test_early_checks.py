"""Mistakes that are told before torch is imported, each in a process of its own."""

import pytest
from interpreters import LIGHT, fork

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width: int, depth: int = 2):
        super().__init__()

    def forward(self, x, mask=None):
        return x

def model():
    return Net(3)
"""
ASK = """
import sys
from flopsight import cli
code = cli.main(sys.argv[1:])
print(code, "torch" in sys.modules)
"""


@pytest.fixture
def ask(tmp_path):
    (tmp_path / "ask").mkdir()
    (tmp_path / "ask" / "ask.py").write_text(ASK)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "syntax.py").write_text("def (\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "mod.py").write_text(NET)

    def ask(*words):
        done = fork(["-m", "ask.ask", *words], tmp_path, LIGHT)
        return done.out.strip(), done.err.strip()

    return ask


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("profile", "nt.py:Net"), "flopsight: There is no file nt.py. Did you mean 'net.py'?"),
        (("profile", "net.py:Nett"), "flopsight: net.py has no 'Nett'. Did you mean 'Net'?"),
        (("profile", "net.py:Net:widht=3"), "flopsight: net.py:Net has no argument 'widht'. Did you mean 'width'?"),
        (("profile", "net.py:Net:width=a"), "flopsight: width of net.py:Net is a whole number; 'a' is not."),
        (("profile", "net:Nett"), "flopsight: net has no 'Nett'. Did you mean 'Net'?"),
        (("profile", "absent.module:Net"), "flopsight: There is no module 'absent' to import absent.module from."),
        (("profile", "zoo:resnet81"), "flopsight: There is no embedded model 'resnet81'"),
        (("profile", "net.py:model", "-i", "8x"), "flopsight: '8x' is not an input."),
        (("profile", "net.py:model", "--dtype", "bf61"), "flopsight: There is no dtype 'bf61'. Did you mean 'bf16'?"),
        (("profile", "net.py:model", "-f", "tabel"), "tabel"),
        (("profile", "net.py:model", "--metta"), "flopsight: No such option"),
        (("profile", "net.py:Net:width=8", "-i", "1,3,32,32"), "x joins its sizes, -i 1x3x32x32."),
        (
            ("profile", "net.py:Net:width=8", "-i", "(1, 3)"),
            "flopsight: '(1, 3)' is not a shape: x joins its sizes, -i 1x3.",
        ),
        (("profile", "net.py:model", "--device", "gpu"), "flopsight: There is no device 'gpu'. Did you mean 'cuda'?"),
        (("profile", "net.py:model", "--device", "cuda0"), "Did you mean 'cuda'?"),
        (("sweep", "net.py:model", "batch=1,2", "--device", "cdua"), "Did you mean 'cuda'?"),
        (
            ("profile", "net.py:model", "--train", "--optimizer", "adamww"),
            "flopsight: torch.optim has no 'adamww'. Did you mean 'adamw'?",
        ),
        (("profile", "package.modd:Net"), "flopsight: There is no module 'package.modd'. Did you mean 'package.mod'?"),
        (
            ("profile", "weights.pt"),
            "flopsight: 'weights.pt' names no model. It is a file of weights; a model is its code,",
        ),
        (("profile", "model.onnx"), "It is an ONNX graph; a model is its code, file.py:Class, or its configuration"),
        (("profile", "folder"), "flopsight: 'folder' names no model. Did you mean 'hf:folder'?"),
        (("profile", "zoo:resnet"), "Did you mean 'resnet18'?"),
        (
            ("profile", "net.py:model", "--dtype", "int8"),
            "flopsight: A model cannot be int8; it can be float32, bfloat16",
        ),
        (("profile", "net.py:model:width=8"), "flopsight: net.py:model has no argument 'width'. It takes none."),
        (
            ("profile", "zoo:alexnet:clases=3"),
            "flopsight: zoo:alexnet has no argument 'clases'. Did you mean 'classes'?",
        ),
        (("profile", "HF:llama"), "flopsight: There is no module 'HF' to import HF from. Did you mean 'hf:llama'?"),
        (("profile", ""), "flopsight: '' names no model. A target is file.py:Class"),
        (("profile", "net.py:Nett:"), "flopsight: net.py has no 'Nett'. Did you mean 'Net'?"),
        (("profile", "net.py:Net:width=8"), "flopsight: net.py:Net:width=8 comes without inputs. Say them with -i: "),
        (
            ("profile", "net.py:Net:width=8", "-i", "x=1x8,msk=1x8"),
            "flopsight: Net.forward(x, mask=None) has no argument 'msk'. Did you mean 'mask'?",
        ),
        (("profile", "package.mod:Net:width=8", "-i", "mask=1x8"), "missing a required argument: 'x'."),
        (("sweep", "net.py:Net", "width=8,16", "-i", "1x8,1x8,1x8"), "too many positional arguments."),
        (("profile", "net.py:Net", "a.yaml"), "flopsight: 'a.yaml' is one word too many: a model is named by a single"),
    ],
)
def test_a_mistake_is_told_before_torch_is_imported(ask, words, said):
    out, err = ask(*words)

    assert out == "2 False", err
    assert said in err
    assert err.count("\n") == 0


def test_a_class_that_needs_arguments_is_answered_with_how_to_give_them(ask):
    out, err = ask("profile", "net.py:Net")

    assert out == "2 False", err
    assert err == (
        "flopsight: net.py:Net needs width. Give it after a second colon, net.py:Net:width=..., "
        "or name a function without arguments that returns the model."
    )


def test_the_check_for_torch_can_fail(ask):
    out, _ = ask("profile", "net.py:model", "-i", "1x8")

    assert out.endswith("True")


def test_a_file_that_is_no_python_shows_its_line_before_torch_is_imported(ask):
    out, err = ask("profile", "syntax.py")

    assert out == "3 False"
    assert 'syntax.py", line 1' in err
    assert err.endswith("flopsight: syntax.py raised SyntaxError: invalid syntax (syntax.py, line 1).")
