"""What operators cost: one file a family, all registered through `@formula`; nothing here imports torch."""

from importlib import import_module
from pkgutil import iter_modules

from .registry import COUNTED, FORMULAS, UNKNOWN, Priced, find, formula, known, place, price

__all__ = ["COUNTED", "FORMULAS", "UNKNOWN", "Priced", "find", "formula", "known", "place", "price"]

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
