"""The module tree of a profile as JSON values: flat, and small if modules are alike.

The modules are one list, parents before children, each with the number of its children, so that a file is not nested
however deep the model is. Equal op rows and equal costs are written once and named by their number. A path that
follows from the parent's path and the module's name is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from ..results.costs import OpRow, Phases
from ..results.node import Node
from .codec import Codec, Convert, DamagedError, shown

Value = TypeVar("Value")
APART = ("children", "path", "own", "ops")
"""The fields of a node that are not written one by one."""
NO_WORK = Phases()


class TreeCodec:
    """How a tree is written and how it is read."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._write_fields = codec.fields_encoder(Node, APART)
        self._read_fields = codec.fields_decoder(Node, APART)

    def encode(self, root: Node) -> dict[str, Any]:
        """The tree as tables."""
        ops, costs = _Numbers[OpRow](self._codec.encode), _Numbers[Phases](self._codec.encode)
        modules = []
        waiting = [(root, "")]
        while waiting:
            node, expected = waiting.pop()
            row = self._write_fields(node)
            if node.path != expected:
                row["path"] = node.path
            if node.own is not NO_WORK and node.own != NO_WORK:
                row["own"] = costs[node.own]
            if node.ops:
                row["ops"] = [ops[op] for op in node.ops]
            if node.children:
                row["children"] = len(node.children)
                above = f"{node.path}." if node.path else ""
                waiting += [(child, above + child.name) for child in reversed(node.children)]
            modules.append(row)
        return {"modules": modules, "ops": ops.written, "costs": costs.written}

    def decode(self, page: Any) -> Node:
        """The tree that tables hold; raises DamagedError if they hold none."""
        rows = page.get("modules") if type(page) is dict else None
        if type(rows) is not list or not rows:
            raise DamagedError(f" is {shown(page)}, not a table with a list of modules")
        ops = _Numbered(page.get("ops", []), partial(self._codec.decode, OpRow), "ops")
        costs = _Numbered(page.get("costs", []), partial(self._codec.decode, Phases), "costs")
        read = _all_fields(rows, self._read_fields)
        paths = _paths(rows, read)
        made: list[Node] = []
        for row, fields, path in zip(reversed(rows), reversed(read), reversed(paths), strict=True):
            if "own" in row:
                fields["own"] = costs(row["own"])
            if "ops" in row:
                if type(row["ops"]) is not list:
                    raise DamagedError(f".modules[].ops is {shown(row['ops'])}, not a list")
                fields["ops"] = tuple([ops(op) for op in row["ops"]])
            # children come before their parents here, the first child last
            children = tuple([made.pop() for _ in range(row.get("children", 0))])
            made.append(Node(path=path, children=children, **fields))
        return made[0]


def _all_fields(rows: list[Any], read: Callable[[Any], dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        found.extend(read(row) for row in rows)
    except DamagedError as problem:
        raise DamagedError(f".modules[{len(found)}]{problem}") from None
    return found


def _paths(rows: list[dict[str, Any]], read: list[dict[str, Any]]) -> list[str]:
    """The path of every module, and a check that the numbers of children make one tree."""
    paths: list[str] = []
    prefixes = [("", 1)]  # of the modules still to come: what their paths begin with, and how many there are
    for row, fields in zip(rows, read, strict=True):
        while prefixes and not prefixes[-1][1]:
            prefixes.pop()
        if not prefixes:
            raise DamagedError(" holds more than one tree of modules")
        prefix, left = prefixes[-1]
        prefixes[-1] = prefix, left - 1
        path = row.get("path", prefix + fields["name"] if paths else "")
        if type(path) is not str:
            raise DamagedError(f".modules[].path is {shown(path)}, not a text")
        number = row.get("children", 0)
        if type(number) is not int or not 0 <= number < len(rows):
            raise DamagedError(f".modules[].children is {shown(number)}, and there are {len(rows)} modules")
        if number:
            prefixes.append((f"{path}." if path else "", number))
        paths.append(path)
    if any(left for _, left in prefixes):
        raise DamagedError(" has fewer modules than its numbers of children say")
    return paths


class _Numbers(dict[Value, int], Generic[Value]):
    """Gives equal values equal numbers, and writes each once."""

    def __init__(self, write: Convert) -> None:
        super().__init__()
        self.written: list[Any] = []
        self._write = write

    def __missing__(self, value: Value) -> int:
        self.written.append(self._write(value))
        self[value] = number = len(self)
        return number


class _Numbered:
    """Values of a list by their number; a value may also stand where its number would."""

    def __init__(self, values: Any, read: Convert, name: str) -> None:
        if type(values) is not list:
            raise DamagedError(f".{name} is {shown(values)}, not a list")
        self._read, self._name = read, name
        self._values = [self._checked(value) for value in values]

    def __call__(self, number: Any) -> Any:
        if type(number) is not int:
            return self._checked(number)
        if not 0 <= number < len(self._values):
            raise DamagedError(f".modules[] names {self._name}[{shown(number)}], and there are {len(self._values)}")
        return self._values[number]

    def _checked(self, value: Any) -> Any:
        try:
            return self._read(value)
        except DamagedError as problem:
            raise DamagedError(f".{self._name}[]{problem}") from None
