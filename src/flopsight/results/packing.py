"""Formats of packed weights: bytes of their codes, scales and zeros, and what their products run in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import InputError, did_you_mean


@dataclass(frozen=True)
class Packing:
    """How one weight of a matrix is packed."""

    name: str
    bits: int
    group: int = 0
    """Weights of a row that share a scale; 0 if the whole row does."""
    shared_bits: int = 16
    """Bits of what a group shares: its scale, and its zero."""
    work: int = 1
    """FLOPs to unpack a weight: times its scale; less its zero before that."""
    runs_in: str = ""
    """The dtype of the products; empty if weights are unpacked into the model's own."""

    def nbytes(self, rows: int, width: int) -> int:
        """Bytes of a matrix of so many rows, each in whole groups."""
        groups = rows * (-(-width // self.group) if self.group else 1)
        return -(-(rows * width * self.bits + groups * self.shared_bits) // 8)


PACKINGS = {
    "int8": Packing("int8", 8),
    "int4": Packing("int4", 4, group=128, shared_bits=16 + 4, work=2),
    "fp8": Packing("fp8", 8, shared_bits=32, work=0, runs_in="float8_e4m3fn"),
}
"""int8: a 16-bit scale a row. int4: a 16-bit scale and a 4-bit zero for 128 weights, as GPTQ and AWQ pack them. fp8: a
32-bit scale a row, products in fp8."""


def packing_of(text: str) -> Packing:
    """The packing that `int8`, `int4`, `int4:32` (another group) or `fp8` names."""
    name, colon, group = str(text).partition(":")
    found = PACKINGS.get(name)
    if found is None:
        raise InputError(
            f"Weights cannot be packed as {text!r}.{did_you_mean(name, PACKINGS)} There are {', '.join(PACKINGS)}, and int4:32 for groups of 32."
        )
    if colon and (not group.isascii() or not group.isdecimal() or not int(group) or found.runs_in):
        raise InputError(
            f"{text!r} is not a packing: a group is a number of weights after int4 or int8, as in int4:32."
        )
    return replace(found, name=text, group=int(group)) if colon else found
