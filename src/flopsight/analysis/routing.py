"""Which part of its parameters a model uses: the experts that a router chose, the rows that were looked up in a table.

A mixture of experts keeps its weights as one stack, a matrix for each expert, or as a list of equal modules. What says that
it is one is a grouped product, or a choice among as many as there are experts. How many of them a token passes is the
number of rows that the experts worked on, over the number of tokens for which the router chose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod

from ..formulas import UNKNOWN, price
from ..formulas.grouped import GROUPED, groups_read, rows_of, stack_of
from ..results.caveats import Caveat, UnknownRouting
from ..results.op_kinds import aten
from ..results.records import FORWARD, ModuleCall, ModuleRow, OpRecord, Parameter, Shape, above
from .lookups import rows_read

STACK, MATRIX = 3, 2
CHOICES = aten("topk argmax max sort argsort")
PICKS = aten("index index_select _unsafe_index")
NEAR = 3
"""How many modules above its experts a router is looked for."""
ELSEWHERE = "other ranks have others of its experts"
NOT_SEEN = "an op without a formula took the weights of the experts"
NO_TOKENS = "it was not seen for how many tokens a router chose"
NOT_OWNED = "the weights of its grouped product are not parameters of the model as it stands"


@dataclass
class _Use:
    """What became of one stack of weights, or of one expert."""

    rows: float = 0
    """Rows that were multiplied with it."""
    experts: float = 0
    """Experts that were read."""
    grouped: bool = False
    whole: bool = False
    """Whether a product took all experts at once."""
    unknown: bool = False


@dataclass
class _Part:
    """The share of a parameter that one token passes, and the share that a call of its module reads."""

    active: float | None = 1.0
    read: float = 1.0


@dataclass
class _Model:
    """The rows of a model, what ran in them forward, and what went into them."""

    rows: Mapping[str, ModuleRow]
    calls: Mapping[str, ModuleCall]
    products: Mapping[str, list[OpRecord]]
    """Forward records that take a matrix or a stack of them, by module."""
    choices: Mapping[str, list[OpRecord]]
    below: Mapping[str, list[str]]
    parts: dict[tuple[str, str], _Part] = field(default_factory=dict)
    """By path and name, for the parameters that are not used as a whole."""
    doubts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def part(self, path: str, parameter: Parameter, part: _Part) -> None:
        """Note what is used of a parameter."""
        self.parts[path, parameter.name] = part

    def subtree(self, path: str) -> Iterator[str]:
        """A path and all below it."""
        waiting = [path]
        while waiting:
            place = waiting.pop()
            yield place
            waiting.extend(reversed(self.below.get(place, ())))


def with_uses(
    rows: Sequence[ModuleRow], records: Iterable[OpRecord], calls: Mapping[str, ModuleCall]
) -> tuple[tuple[ModuleRow, ...], tuple[Caveat, ...]]:
    """The rows, their parameters with the share that one token passes and the bytes that a call reads; and what is not known."""
    forward = [record for record in records if record.phase == FORWARD]
    model = _model(rows, forward, calls)
    for row in rows:
        if any(len(shape) == STACK for shape in row.shapes):
            _stacks(model, row)
        if model.choices and len(model.below.get(row.path, ())) > 1:
            _list_of_experts(model, row)
    _unowned(model)
    tables = rows_read(rows, forward, model.calls)
    made = tuple(replace(row, parameters=tuple(_used(model, row, tables))) for row in rows)
    return made, tuple(UnknownRouting(tuple(paths), why) for why, paths in model.doubts.items())


def _model(rows: Sequence[ModuleRow], forward: Iterable[OpRecord], calls: Mapping[str, ModuleCall]) -> _Model:
    below: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.path:
            below[parent(row.path)].append(row.path)
    products: defaultdict[str, list[OpRecord]] = defaultdict(list)
    choices: defaultdict[str, list[OpRecord]] = defaultdict(list)
    for record in forward:
        if record.op in CHOICES and record.inputs:
            choices[record.module].append(record)
        elif record.kind != "view":
            products[record.module].append(record)
    return _Model({row.path: row for row in rows}, calls, products, choices, below)


def _used(model: _Model, row: ModuleRow, tables: Mapping[int, int]) -> Iterator[Parameter]:
    for parameter in row.parameters:
        part = model.parts.get((row.path, parameter.name))
        if parameter.expert:
            part = _unknown(model, row.path, ELSEWHERE, part.read if part is not None else 1.0)
        if part is not None:
            read = None if part.read >= 1 else ceil(parameter.nbytes * part.read)
            yield replace(parameter, active=part.active, read_bytes=read)
        elif parameter.unread or tables.get(parameter.key, parameter.nbytes) < parameter.nbytes:
            yield replace(parameter, read_bytes=0 if parameter.unread else tables[parameter.key])
        else:
            yield parameter


# -- experts in one stack of weights


def _stacks(model: _Model, row: ModuleRow) -> None:
    """The parameters of a module that hold a matrix for each expert, equal ones together."""
    alike: defaultdict[Shape, list[tuple[Parameter, int]]] = defaultdict(list)
    for parameter, shape in zip(row.parameters, row.shapes, strict=True):
        if len(shape) == STACK and min(shape) > 0:
            alike[tuple(sorted(shape[1:]))].append((parameter, parameter.elements // prod(shape[1:])))
    for sides, stacks in alike.items():
        experts = stacks[0][1]
        use = _use_of(model, row.path, experts, sides)
        if use.unknown:
            part: _Part | None = _unknown(model, row.path, NOT_SEEN)
        elif use.whole or not (use.grouped or use.experts):
            part = None
        else:
            part = _share(model, row, use, len(stacks), experts, sides)
        if part is not None:
            for parameter, _ in stacks:
                model.part(row.path, parameter, part)
            _biases(model, row, experts, part)


def _use_of(model: _Model, path: str, experts: int, sides: Shape) -> _Use:
    """How the stacks of one size were used: in grouped products, expert by expert, picked for each row, or all at once."""
    use = _Use()
    picked = set()
    for record in model.products.get(path, ()):
        taken = [meta.shape for meta in record.inputs if tuple(sorted(meta.shape[-MATRIX:])) == sides]
        whole = any(len(shape) == STACK and shape[0] == experts for shape in taken)
        if record.op in GROUPED:
            if whole and stack_of(record) is not None:
                use.grouped = True
                use.rows += rows_of(record) * record.count
                use.experts += groups_read(record) * record.count
        elif record.op in PICKS and whole:
            chosen = record.output.numel // prod(sides)
            picked.add(chosen)
            use.experts += min(experts, chosen) * record.count
        elif record.kind == "matrix" and taken:
            rows = price(record).cost.macs // prod(sides) * record.count
            if any(len(shape) == STACK and shape[0] in picked for shape in taken):
                use.rows += rows
            elif whole:
                use.whole = True
            elif any(len(shape) == MATRIX for shape in taken):
                use.rows += rows
                use.experts += record.count if record.output.numel else 0
        elif whole and price(record).status == UNKNOWN:
            use.unknown = True
    return use


def _share(model: _Model, row: ModuleRow, use: _Use, stacks: int, experts: int, sides: Shape) -> _Part | None:
    """What one token passes of the experts and a call reads of them; None if nothing says that they are experts."""
    read = min(1.0, use.experts / stacks / experts / _calls(model, row.path))
    tokens = _chosen_for(model, row.path, experts)
    if tokens is None and use.grouped:
        tokens = _tokens_in(model, row.path, sides, use.rows / stacks)
        if tokens is None:
            return _unknown(model, row.path, NO_TOKENS, read)
    return _Part(min(1.0, use.rows / stacks / tokens / experts), read) if tokens else None


def _biases(model: _Model, row: ModuleRow, experts: int, part: _Part) -> None:
    """What else a module has one row of for each expert goes with them, unless a product takes it whole, as a router's weight.

    The shape of a bias can be that of the rows that experts work on, so a bias is known by its name.
    """
    products = [record for record in model.products.get(row.path, ()) if record.kind == "matrix" and record.op not in GROUPED]  # fmt: skip
    taken = {tuple(sorted(meta.shape)) for record in products for meta in record.inputs}
    for parameter, shape in zip(row.parameters, row.shapes, strict=True):
        whole = tuple(sorted(shape)) in taken and "bias" not in parameter.name
        if len(shape) == MATRIX and shape[0] == experts and not whole:
            model.part(row.path, parameter, part)


def _unowned(model: _Model) -> None:
    """Grouped products whose weights no parameter has the shape of: what one token passes of the model is not known."""
    known = {path for path, _ in model.parts}
    for path, records in model.products.items():
        if (
            path in model.rows
            and path not in known
            and any(record.op in GROUPED and stack_of(record) for record in records)
        ):
            holder = next((place for place in (path, *above(path)) if model.rows[place].parameters), None)
            if holder is not None:
                for parameter in model.rows[holder].parameters:
                    model.part(holder, parameter, _unknown(model, path, NOT_OWNED))


def _unknown(model: _Model, path: str, why: str, read: float = 1.0) -> _Part:
    if path not in model.doubts[why]:
        model.doubts[why].append(path)
    return _Part(None, read)


# -- tokens


def _chosen_for(model: _Model, path: str, experts: int, skip: Sequence[str] = ()) -> float | None:
    """For how many tokens a router chose among that many experts, in the nearest module around them that did."""
    for around in (path, *above(path))[: NEAR + 1]:
        for place in model.subtree(around):
            choices = [record for record in model.choices.get(place, ()) if _among(record) == experts]
            if choices and not any(place == left or place.startswith(f"{left}.") for left in skip):
                # a router may look at its scores more than once in a call
                times = sum(record.count for record in choices)
                tokens = sum(record.inputs[0].numel // experts * record.count for record in choices)
                return tokens * min(1.0, _calls(model, place) / times)
    return None


def _among(record: OpRecord) -> int:
    """The size of the dimension in which scores are compared; 0 for anything else."""
    scores, dim = record.inputs[0], record.args.get("dim")
    if not isinstance(dim, int) or not scores.is_real_number or not -len(scores.shape) <= dim < len(scores.shape):
        return 0
    return scores.shape[dim]


def _calls(model: _Model, path: str) -> int:
    """Calls of a module, or of the nearest one around it that was called."""
    return next((model.calls[place].calls for place in (path, *above(path)) if place in model.calls), 1)


def _tokens_in(model: _Model, path: str, sides: Shape, rows: float) -> int | None:
    """The tokens that went into the experts, or into the nearest module around them that gets fewer than they work on."""
    found = None
    for place in (path, *above(path))[: NEAR + 1]:
        call = model.calls.get(place)
        wide = [meta for meta in call.inputs if meta.is_real_number and meta.shape[-1:] and meta.shape[-1] in sides] if call else []  # fmt: skip
        if call is None or not wide:
            continue
        tokens = max(meta.numel // meta.shape[-1] for meta in wide) * call.calls
        if tokens < rows:
            return tokens
        found = found or tokens
    return found


# -- experts that are modules of a list


def _list_of_experts(model: _Model, row: ModuleRow) -> None:
    """Equal modules side by side, among which a router near them chose: each is passed by the tokens that it worked on."""
    paths = model.below[row.path]
    if len({model.rows[path].kind for path in paths}) > 1 or not all(path[-1].isdigit() for path in paths):
        return
    sizes = {tuple(p.numel for place in model.subtree(path) for p in model.rows[place].parameters) for path in paths}
    if len(sizes) > 1 or sizes == {()}:
        return
    tokens = _chosen_for(model, row.path, len(paths), skip=paths)
    if not tokens:
        return
    calls = _calls(model, row.path)
    for path in paths:
        use = _use_of_expert(model, path)
        if use is None:
            return
        part = _Part(min(1.0, use.rows / tokens), min(1.0, use.experts / calls))
        for place in model.subtree(path):
            for parameter in model.rows[place].parameters:
                model.part(place, parameter, part)


def _use_of_expert(model: _Model, path: str) -> _Use | None:
    """The rows that the first layer of an expert worked on, and how often it had any; None if it has no layer with a matrix."""
    for place in model.subtree(path):
        for shape in model.rows[place].shapes:
            if len(shape) != MATRIX:
                continue
            sides, use = tuple(sorted(shape)), _Use()
            for record in model.products.get(place, ()):
                if record.kind == "matrix" and any(tuple(sorted(meta.shape)) == sides for meta in record.inputs):
                    use.rows += price(record).cost.macs // prod(shape) * record.count
                    use.experts += record.count if record.output.numel else 0
            return use
    return None


def parent(path: str) -> str:
    """The path of the module around another one."""
    return path.rpartition(".")[0]
