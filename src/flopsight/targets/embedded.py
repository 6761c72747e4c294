"""The models of our own zoo as targets."""

from __future__ import annotations

from typing import Any

from .. import zoo
from .address import Address
from .blueprint import Blueprint, Call
from .changes import typed_arguments


def zoo_blueprint(address: Address) -> Blueprint:
    """One of the embedded models with a small batch."""
    arguments = typed_arguments(address.shown, zoo.factory(address.name), address.changes)

    def inputs(_: Any, sizes: Any) -> Call:
        example = zoo.example_inputs(address.name, sizes.batch, sizes.seq)
        return Call(*example)

    return Blueprint(lambda: zoo.factory(address.name)(**arguments), inputs)
