"""Whether a forward can be called with what was given, by its signature alone."""

import inspect
from typing import TypedDict, Unpack

import pytest
import torch
from torch import nn

from flopsight import zoo
from flopsight.errors import InputError
from flopsight.targets.calls import check_call, check_inputs, check_passed_on, needs_inputs
from flopsight.targets.inputs import parse_inputs


class Further(TypedDict, total=False):
    return_dict: bool


def forward(input_ids, places=None, *, attention_mask: int = 3): ...
def optional(x=None, y=2): ...
def settings(*args, scale=1, **more): ...


TAKES = inspect.signature(forward)


def test_a_call_that_fits_is_not_complained_about():
    with torch.device("meta"):
        model, args, kwargs = zoo.build("bert-base")

    check_call("Bert", inspect.signature(model.forward), args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'input_ids'"),
        ((1, 2, 3, 4), {}, "too many positional arguments"),
        ((1,), {"place": 2}, "has no argument 'place'. Did you mean 'places'?"),
    ],
)
def test_a_call_that_does_not_fit_is_named_with_the_signature(args, kwargs, said):
    with pytest.raises(InputError) as problem:
        check_call("Net", TAKES, args, kwargs)

    assert said in str(problem.value)
    assert str(problem.value).startswith("Net.forward(input_ids, places=None, *, attention_mask=3)")


def test_the_inputs_of_a_command_line_are_checked_before_they_are_made():
    check_inputs("net.py:Net", "Net", TAKES, parse_inputs(["2x8,attention_mask=2x8:int64"]))
    with pytest.raises(InputError, match="^net.py:Net comes without inputs. Say them with -i"):
        check_inputs("net.py:Net", "Net", TAKES, [])
    with pytest.raises(InputError, match="missing a required argument: 'input_ids'"):
        check_inputs("net.py:Net", "Net", TAKES, parse_inputs(["places=2x8"]))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, **more: Unpack[Further]): ...


class Inner(nn.Module):
    def forward(self, x, scale=1): ...


def test_a_name_that_no_module_takes_is_not_swallowed_by_keyword_arguments():
    check_passed_on(Outer(), ["x", "scale", "return_dict"])
    with pytest.raises(InputError, match="^Outer has no argument 'y'.$"):
        check_passed_on(Outer(), ["y"])


@pytest.mark.parametrize(("function", "needs"), [(forward, True), (optional, True), (settings, False)])
def test_an_optional_first_argument_is_what_a_model_works_on(function, needs):
    assert needs_inputs(inspect.signature(function)) == needs
