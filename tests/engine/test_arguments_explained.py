"""help() of the public functions explains every argument, and a copy that does not fit is warned of before it is made."""

import inspect
import re
import warnings

import pytest
import torch
from torch import nn

import flopsight
from flopsight.engine import measure

PUBLIC = [getattr(flopsight, name) for name in flopsight.__all__ if name != "__version__"]
FUNCTIONS = [thing for thing in PUBLIC if inspect.isfunction(thing)]
METHODS = [
    (thing, name)
    for thing in PUBLIC
    if inspect.isclass(thing)
    for name, member in vars(thing).items()
    if inspect.isfunction(member) and not name.startswith("_")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_argument_is_explained(function):
    text = inspect.getdoc(function)

    assert [name for name in inspect.signature(function).parameters if f"`{name}" not in text] == []


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=lambda value: getattr(value, "__name__", value))
def test_every_argument_of_a_method_is_named_by_it_or_its_class(owner, name):
    method = getattr(owner, name)
    text = f"{inspect.getdoc(method)} {inspect.getdoc(owner)}"

    _, *arguments = inspect.signature(method).parameters
    assert [argument for argument in arguments if not re.search(rf"\b{argument}\b", text)] == []


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(measure, "free_memory", lambda device: 100)
    monkeypatch.setattr(measure, "SMALL_COPY", 0)


@pytest.mark.parametrize("function", [flopsight.count, flopsight.profile])
def test_a_copy_that_does_not_fit_is_warned_of(little_memory, function):
    with pytest.warns(
        UserWarning, match="about to copy 256 B of parameters and buffers, and 100 B is free on cpu"
    ) as seen:
        function(nn.Linear(8, 8, bias=False), torch.ones(1, 8), on="copy")

    assert seen[0].filename == __file__


def test_an_optimizer_step_copies_parameters_too(little_memory):
    model = nn.Linear(8, 8, bias=False)

    with pytest.warns(UserWarning, match="about to copy 256 B"):
        flopsight.count(model, torch.ones(1, 8), train=True, optimizer=torch.optim.SGD(model.parameters()))


@pytest.mark.parametrize("options", [{}, {"train": True}, {"on": "meta"}])
def test_what_copies_nothing_is_not_warned_of(little_memory, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        flopsight.count(nn.Linear(8, 8, bias=False), torch.ones(1, 8), **options)
