"""The list of embedded models by name; torch is imported when one is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InputError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Entry:
    """One embedded model."""

    name: str
    home: str
    """The file that it lives in."""
    factory: str
    about: str
    batch: int
    """A batch that profiles in seconds on a laptop."""
    published_batch: int
    """The batch of the profile that was published for it."""


class Example(NamedTuple):
    """A model and what to call it with."""

    model: nn.Module
    args: tuple[Tensor, ...]
    kwargs: dict[str, Tensor]


_ENTRIES = (
    Entry("lenet5", "lenet", "LeNet5", "LeNet-5, 1x32x32 digits", 1024, 1024),
    Entry("alexnet", "alexnet", "AlexNet", "AlexNet, 3x224x224 images", 8, 256),
    Entry("pointnet", "pointnet", "PointNet", "PointNet, clouds of 1024 points", 4, 32),
    Entry("resnet18", "resnet", "ResNet", "ResNet-18, 3x224x224 images", 4, 16),
    Entry("resnet50", "resnet", "resnet50", "ResNet-50, 3x224x224 images", 2, 1),
    Entry("bert-base", "bert", "BertForSequenceClassification", "BERT-base classifier, 128 tokens", 1, 4),
    Entry("bert-large", "bert_large", "BertForPreTrainingPreLN", "BERT-large pre-LN pretraining, 128 tokens", 1, 80),
    Entry("gpt2", "gpt", "GPT", "GPT-2 small, 128 tokens", 1, 1),
)


def entries() -> tuple[Entry, ...]:
    """Every embedded model."""
    return _ENTRIES


def names() -> list[str]:
    """The names that `build` knows."""
    return [entry.name for entry in _ENTRIES]


def factory(name: str) -> Callable[..., nn.Module]:
    """The class or function that makes an embedded model."""
    entry = find(name)
    made: Callable[..., nn.Module] = getattr(import_module(f"{__package__}.{entry.home}"), entry.factory)
    return made


def example_inputs(
    name: str, batch: int | None = None, tokens: int | None = None
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Random inputs of an embedded model: images and clouds go in by position, token ids by name."""
    entry = find(name)
    make = import_module(f"{__package__}.{entry.home}").inputs
    if tokens is not None and "tokens" not in signature(make).parameters:
        raise InputError(f"{entry.name} reads no sequence of tokens ({entry.about}); leave out seq.")
    sizes = {} if tokens is None else {"tokens": tokens}
    tensors: dict[str, Tensor] = make(entry.batch if batch is None else batch, **sizes)
    return (tuple(tensors.values()), {}) if len(tensors) == 1 else ((), tensors)


def build(name: str, batch: int | None = None) -> Example:
    """A model with random weights and random inputs; `with torch.device("meta")` around it allocates nothing.

    The batch is a small one unless given.
    """
    args, kwargs = example_inputs(name, batch)
    return Example(factory(name)(), args, kwargs)


def find(name: str) -> Entry:
    """The entry of a name."""
    for entry in _ENTRIES:
        if entry.name == name.lower().replace("_", "-"):
            return entry
    raise InputError(
        f"There is no embedded model {name!r}; there are {', '.join(names())}.{did_you_mean(name, names())}"
    )
