"""An entry of the sweep: which class of which library, made with what, called with what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import nn

Inputs = Callable[[int], tuple[Any, ...]]
"""What a model is called with, by the batch size."""


@dataclass(frozen=True)
class Example:
    """A model and what it is called with."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Architecture:
    """A name, the library it comes from, and a way to make an example of it."""

    name: str
    library: str
    build: Callable[[int], Example]


def made(target: str, inputs: Inputs, /, *args: Any, called: str = "", **options: Any) -> Architecture:
    """The class or function `module:name`, called with these options; its model is called with the inputs."""
    module, _, maker = target.partition(":")
    library = module.partition(".")[0]

    def build(batch: int) -> Example:
        return Example(getattr(import_module(module), maker)(*args, **options), inputs(batch))

    return Architecture(f"{library}/{called or maker}", library, build)


def built(library: str, name: str) -> Callable[[Callable[[int], Any]], Architecture]:
    """A function that makes model, arguments and maybe keyword arguments for a batch size, as an entry."""

    def entry(make: Callable[[int], Any]) -> Architecture:
        return Architecture(f"{library}/{name}", library, lambda batch: Example(*make(batch)))

    return entry


def image(size: int, channels: int = 3) -> Inputs:
    """A batch of square images."""
    return lambda batch: (torch.randn(batch, channels, size, size),)


def volume(size: int, channels: int = 1) -> Inputs:
    """A batch of cubes."""
    return lambda batch: (torch.randn(batch, channels, size, size, size),)


def video(frames: int, size: int) -> Inputs:
    """A batch of short films."""
    return lambda batch: (torch.randn(batch, 3, frames, size, size),)


def tokens(length: int, vocabulary: int = 64) -> Inputs:
    """A batch of token numbers."""
    return lambda batch: (torch.randint(0, vocabulary, (batch, length)),)


def sequence(length: int, width: int) -> Inputs:
    """A batch of vectors in a row."""
    return lambda batch: (torch.randn(batch, length, width),)
