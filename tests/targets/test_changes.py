"""Values after the second colon: typed by the signature, refused with the nearest name."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Optional

import pytest
import torch

from flopsight.errors import InputError
from flopsight.targets.changes import literal, typed_arguments


class Mode(enum.Enum):
    FAST = "fast"


@dataclass(frozen=True)
class Config:
    layers: int = 12
    hidden: int = 768


@dataclass
class Strict:
    layers: int


def takes(
    width: int = 1,
    rate: float = 0.1,
    bias: bool = True,
    name: str = "x",
    limit: int | None = None,
    other: Optional[float] = None,  # noqa: UP045
    sizes: tuple[int, ...] = (),
    kinds: list[str] | None = None,
    mode: Mode = Mode.FAST,
    choice: Literal["a", "b"] = "a",
    dtype: torch.dtype = torch.float32,
    path: Path = Path(),
    plain=3,
    switch=False,
    anything=None,
):
    """Only its signature is looked at."""


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("width", "32", 32),
        ("width", "2k", 2048),
        ("rate", "0.5", 0.5),
        ("rate", "1", 1.0),
        ("bias", "false", False),
        ("bias", "0", False),
        ("name", "12", "12"),
        ("name", "'a,b'", "a,b"),
        ("limit", "none", None),
        ("limit", "7", 7),
        ("other", "1e-3", 1e-3),
        ("sizes", "[1,2]", (1, 2)),
        ("kinds", "['a']", ["a"]),
        ("mode", "fast", Mode.FAST),
        ("choice", "b", "b"),
        ("dtype", "bf16", torch.bfloat16),
        ("path", "a/b", Path("a/b")),
        ("plain", "0.5", 0.5),
        ("plain", "4", 4),
        ("switch", "true", True),
        ("anything", "[1, 'x']", [1, "x"]),
        ("anything", "word", "word"),
    ],
)
def test_a_value_has_the_type_of_its_argument(name, text, value):
    made = typed_arguments("f", takes, {name: text})[name]

    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("width", "3.5", "width of f is a whole number; '3.5' is not."),
        ("bias", "maybe", "bias of f is true or false; 'maybe' is not."),
        ("rate", "fast", "rate of f is a number; 'fast' is not."),
        ("limit", "x", "limit of f is none or a whole number; 'x' is not."),
        ("choice", "c", "choice of f is one of a, b; 'c' is not."),
        ("plain", "x", "plain of f is a number; 'x' is not."),
        ("wdth", "3", "f has no argument 'wdth'. Did you mean 'width'?"),
    ],
)
def test_a_wrong_value_or_name_is_answered_with_what_would_be_right(name, text, said):
    with pytest.raises(InputError) as problem:
        typed_arguments("f", takes, {name: text})

    assert str(problem.value) == said


def test_an_argument_without_default_is_asked_for_with_the_way_to_give_it():
    with pytest.raises(InputError, match="f needs a and b. Give them after a second colon, f:a=...,b=..., or name"):
        typed_arguments("f", lambda a, b, c=1: None, {})


def test_a_function_that_takes_any_name_gets_literals():
    assert typed_arguments("f", lambda **more: None, {"depth": "4", "name": "x"}) == {"depth": 4, "name": "x"}


def test_fields_of_a_dataclass_argument_are_changed_by_name():
    def with_default(config: Config | None = None):
        """The default stays away where nothing is changed."""

    def required(config: Config, layers: int = 1):
        """A field whose name is taken needs its argument in front."""

    def strict(config: Strict):
        """A dataclass without defaults."""

    assert typed_arguments("f", with_default, {"layers": "2"}) == {"config": Config(layers=2)}
    assert typed_arguments("f", with_default, {}) == {}
    assert typed_arguments("f", required, {}) == {"config": Config()}
    assert typed_arguments("f", required, {"config.layers": "2", "layers": "3"}) == {
        "config": Config(layers=2),
        "layers": 3,
    }
    with pytest.raises(InputError, match="f's config needs layers"):
        typed_arguments("f", strict, {})
    with pytest.raises(InputError, match="f has no argument 'hiden'. Did you mean 'hidden'?"):
        typed_arguments("f", with_default, {"hiden": "2"})


@pytest.mark.parametrize(
    ("text", "value"), [("4", 4), ("true", True), ("None", None), ("relu", "relu"), ("(1,2)", (1, 2))]
)
def test_a_value_without_a_type_is_read_as_a_literal(text, value):
    assert literal(text) == value
