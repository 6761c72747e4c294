"""The table of formulas, filled by `@formula`; prices a record, or gives the reason why its cost is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from ..errors import FormulaError
from ..results.costs import FREE, Cost
from ..results.op_kinds import aten, named, out_of_place
from ..results.records import OpRecord, TensorMeta

__all__ = ["aten", "named"]

Formula = Callable[[OpRecord], Cost]
F = TypeVar("F", bound=Formula)

FORMULAS: dict[str, Formula] = {}
KIND_FORMULAS: dict[str, Formula] = {}
"""Formulas by kind of op, for ops without one of their own."""

NO_ARITHMETIC: set[str] = set()
"""Those of the names in `FORMULAS` whose ops compute nothing: their status is free, their bytes are as stated."""
_OPS: set[str] = set()
"""The names in `FORMULAS` without their overloads."""

COUNTED, FREE_OF_WORK, UNKNOWN = "counted", "free", "unknown"


@dataclass(frozen=True, slots=True)
class Priced:
    """A record's cost, or the reason why it has none."""

    status: str
    cost: Cost = FREE
    why: str = ""
    failed: bool = False
    """Whether it is unknown because its formula failed."""


def formula(*ops: str, replace: bool = False) -> Callable[[F], F]:
    """Say what the named `ops` cost, `@flopsight.formula("mylib.myop")`. Only `replace=True` replaces a formula that is there.

    The function gets an `OpRecord` and returns a `Cost`. FLOPs not stated are twice the MACs; bytes not stated
    are those of the inputs and outputs. A name may carry an overload, `"aten.add.Tensor"`, which then wins.
    An op that works in place, `aten.addmm_`, costs what its namesake costs and needs no formula of its own.
    """
    if not ops or not all(isinstance(op, str) for op in ops):
        raise FormulaError('Name the op as a string: @flopsight.formula("mylib.myop").')
    names = [op.replace("::", ".") for op in ops]

    def register(fn: F) -> F:
        for name in names:
            if name in FORMULAS and not replace:
                raise FormulaError(
                    f"{name} already has a formula, {place(FORMULAS[name])}. "
                    f"To replace it: @flopsight.formula({name!r}, replace=True)."
                )
        FORMULAS.update(dict.fromkeys(names, fn))
        NO_ARITHMETIC.difference_update(names)
        _OPS.update(".".join(name.split(".")[:2]) for name in names)
        return fn

    return register


def free(*ops: str) -> Callable[[F], F]:
    """Register ops that compute nothing; the formula only states the bytes they move."""

    def register(fn: F) -> F:
        formula(*ops)(fn)
        NO_ARITHMETIC.update(ops)
        return fn

    return register


def for_kind(kind: str) -> Callable[[F], F]:
    """Register what every op of a kind costs unless it has a formula of its own."""

    def register(fn: F) -> F:
        KIND_FORMULAS[kind] = fn
        return fn

    return register


def find(record: OpRecord) -> Formula | None:
    """The formula for a record: its overload's, its op's, that of the same op out of place, its kind's, or none."""
    name = _own(record)
    return FORMULAS[name] if name else KIND_FORMULAS.get(record.kind)


def known(op: str) -> bool:
    """Whether an op has a formula of its own, under any overload."""
    return op in _OPS or out_of_place(op) in _OPS


def price(record: OpRecord) -> Priced:
    """Cost a record, one call of it; never raises for what a formula does wrong."""
    name = _own(record)
    fn = FORMULAS[name] if name else KIND_FORMULAS.get(record.kind)
    if fn is None:
        return Priced(
            UNKNOWN, Cost(bytes=traffic(record)), f"no formula; register one: @flopsight.formula({record.op!r})"
        )
    try:
        cost = _checked(fn(record))
    except Exception as problem:
        said = str(problem) or type(problem).__name__
        why = f"the formula {place(fn)} failed on {_call(record)}: {said}"
        return Priced(UNKNOWN, Cost(bytes=traffic(record)), why, failed=True)
    stated = name in NO_ARITHMETIC or record.kind == "view"
    if not cost.bytes and not stated:
        cost = replace(cost, bytes=traffic(record))
    works = name not in NO_ARITHMETIC if name else cost.macs or cost.flops
    return Priced(COUNTED if works else FREE_OF_WORK, cost)


def _own(record: OpRecord) -> str | None:
    """The name under which a record's own formula is registered."""
    plain = out_of_place(record.op)
    names = (f"{record.op}.{record.overload}", f"{plain}.{record.overload}", record.op, plain)
    return next((name for name in names if name in FORMULAS), None)


def traffic(record: OpRecord) -> int:
    """Bytes of an op by itself: every input read once, every output written once; a product without a result reads nothing."""
    if record.kind == "matrix" and record.outputs and not any(meta.numel for meta in record.outputs):
        return 0
    return sum(meta.nbytes for meta in record.inputs) + sum(meta.nbytes for meta in record.outputs)


def place(fn: Formula) -> str:
    """Where a formula is written: name, file and line."""
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__name__", repr(fn))
    return f"{name}() at {code.co_filename}:{code.co_firstlineno}" if code else name


def _checked(cost: object) -> Cost:
    if not isinstance(cost, Cost):
        raise TypeError(f"it returned {cost!r}, not a flopsight.Cost")
    for name in ("macs", "flops", "bytes", "skipped_macs", "recompute_macs"):
        value = getattr(cost, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"its {name} is {value!r}, not a whole number")
        if value < 0:
            raise ValueError(f"its {name} is negative, {value}")
    return cost


def _call(record: OpRecord) -> str:
    return f"{record.op}({', '.join(f'{name}={_short(value)}' for name, value in record.args.items())})"


def _short(value: object) -> str:
    if isinstance(value, TensorMeta):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, tuple):
        return f"[{', '.join(_short(item) for item in value)}]"
    return repr(value)
