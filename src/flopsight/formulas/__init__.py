"""What operators cost: one file a family, all registered through `@formula`; nothing here imports torch."""

from . import elementwise, matmul
from .registry import FORMULAS, COUNTED, FREE_OF_WORK, UNKNOWN, Priced, find, formula, known, place, price

__all__ = ["COUNTED", "FORMULAS", "FREE_OF_WORK", "UNKNOWN", "Priced", "elementwise", "find", "formula", "known",
           "matmul", "place", "price"]  # fmt: skip
