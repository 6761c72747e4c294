"""One module of a profile: what it owns, what ran in it, its submodules, and the figures of its whole subtree."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from .. import units
from .ceilings import Conditions
from .comm import CommRow
from .costs import NO_WORK, OpRow, Phases, Worked
from .in_notebooks import InNotebooks
from .records import Parameter, Shape
from .subtree import of_subtree

Item = TypeVar("Item")
MOST_LETTERS = 300
"""How long the `repr` of a value may be: a prompt shows it whole."""


@dataclass(frozen=True)
class Node(Worked, InNotebooks):
    """One module: what it owns, what ran in it, and its submodules."""

    path: str
    """The qualified name: `layers.0.mlp`; empty for the model itself."""
    name: str
    """The last part of the path."""
    kind: str
    """The name of its class."""
    own: Phases = NO_WORK
    """Costs of the ops that ran in it and in none of its submodules, by phase."""
    children: tuple[Node, ...] = ()
    """Its submodules, in the order of the model."""
    parameters: tuple[Parameter, ...] = ()
    """The parameters that it holds itself."""
    calls: int = 0
    """How often its forward ran."""
    input_shapes: tuple[Shape, ...] = ()
    """Shapes of the tensors of its first call."""
    output_shapes: tuple[Shape, ...] = ()
    """Shapes of what its first call returned."""
    input_bytes: int = 0
    """Bytes of the tensors that its first call got."""
    output_bytes: int = 0
    """Bytes of the tensors that its first call returned."""
    latency: float | None = None
    """Seconds of forward, submodules included, on a device those of its kernels; a container that is never called shows
    its children's sum."""
    backward_latency: float | None = None
    """Seconds of backward, like `latency`."""
    host_latency: float | None = None
    """On a device, the time the host took to hand the work over."""
    stream_latency: float | None = None
    """On a device, the time from the first kernel of a forward call to the end of its last, waiting included."""
    own_activation_bytes: int = 0
    """Storages that this module itself saved for backward; each storage is counted once, for the first who saved it."""
    allocated_bytes: int | None = None
    """Growth of allocated memory during the module's forward, the older profilers' AProfiler figure."""
    own_peak_bytes: int = 0
    """Bytes alive at the peak of the step that ops of this module itself had made."""
    packed_bytes: int = 0
    """Bytes of weights that the module itself holds in buffers: codes, scales and zeros of a quantised layer."""
    ops: tuple[OpRow, ...] = ()
    """What ran in it and in none of its submodules, by op and phase."""
    comm: tuple[CommRow, ...] = ()
    """What this module itself exchanged with other ranks."""
    setup_comm: tuple[CommRow, ...] = ()
    """What it exchanged once, to set itself up; not part of the totals."""
    extra_repr: str = ""
    """What the module says of itself: `in_features=8, out_features=2`."""
    ignored: bool = False
    """Whether it was left out on request: its costs are zero."""

    conditions: ClassVar[Conditions | None] = None
    """What `limit` and `bound` depend on beside the node; None if it is not part of a profile. Set once, by `under`."""

    def __repr__(self) -> str:
        return f"<Node {self.one_line[:MOST_LETTERS]}>"

    @property
    def one_line(self) -> str:
        """The module in one line: its name, its class and its largest figures."""
        parts = [self.params_text, f"{units.si(self.macs)} MACs", f"{units.si(self.flops)} FLOPs"]
        parts += [units.seconds(self.latency)] if self.latency else []
        return f"{self.path or 'the model'}: {self.kind}, {', '.join(parts)}"

    @property
    def params_text(self) -> str:
        """`46.7 G params`, with those that one token passes if these are fewer."""
        active = self.active_params
        passed = f" ({units.si(active)} active)" if active is not None and active != self.params else ""
        return f"{units.si(self.params)} params{passed}"

    @of_subtree
    def total(self) -> Phases:
        """Own work and that of all submodules."""
        return sum((child.total for child in self.children), start=self.own)

    @property
    def _phases(self) -> Phases:
        return self.total

    @of_subtree
    def distinct_parameters(self) -> tuple[Parameter, ...]:
        """The subtree's parameter tensors, each once."""
        found = {parameter.key: parameter for parameter in self.parameters}
        for child in self.children:
            found |= {parameter.key: parameter for parameter in child.distinct_parameters}
        return tuple(found.values())

    @cached_property
    def params(self) -> int:
        """Elements in the distinct parameter tensors of the subtree."""
        return sum(parameter.numel for parameter in self.distinct_parameters)

    @cached_property
    def active_params(self) -> int | None:
        """Those of `params` that one token passes: of experts that a router chooses, k of n; None if that is not known."""
        return _active((p.numel, p.active) for p in self.distinct_parameters)

    @property
    def own_active_params(self) -> int | None:
        """The same of the parameters that the module itself owns."""
        return _active((p.numel, p.active) for p in {p.key: p for p in self.parameters}.values())

    @cached_property
    def whole_active_params(self) -> int | None:
        """The same of the whole tensors, also if this process holds shards."""
        return _active((p.elements, p.active) for p in self.distinct_parameters)

    @cached_property
    def trainable_params(self) -> int:
        """Those of `params` that require a gradient."""
        return sum(parameter.numel for parameter in self.distinct_parameters if parameter.trainable)

    @cached_property
    def whole_params(self) -> int:
        """Elements in the whole tensors, also if this process holds shards."""
        return sum(parameter.elements for parameter in self.distinct_parameters)

    @cached_property
    def param_bytes(self) -> int:
        """Bytes of the distinct parameter tensors."""
        return sum(parameter.nbytes for parameter in self.distinct_parameters)

    @cached_property
    def grad_bytes(self) -> int:
        """Bytes that the gradients of the trainable parameters take."""
        return sum(p.numel * p.itemsize for p in self.distinct_parameters if p.trainable)

    @cached_property
    def optimizer_bytes(self) -> int:
        """Bytes that the optimizer keeps for the subtree's parameters."""
        return sum(parameter.state_bytes for parameter in self.distinct_parameters)

    @of_subtree
    def activation_bytes(self) -> int:
        """Bytes saved for backward in the subtree."""
        return self.own_activation_bytes + sum(child.activation_bytes for child in self.children)

    @of_subtree
    def peak_bytes(self) -> int:
        """Bytes alive at the peak of the step that ops of the subtree had made; parameters were there before."""
        return self.own_peak_bytes + sum(child.peak_bytes for child in self.children)

    @cached_property
    def read_param_bytes(self) -> int:
        """Bytes of parameters that a forward reads, at most: of a table the rows looked up, of experts those that were chosen."""
        return sum(parameter.most_read for parameter in self.distinct_parameters)

    @property
    def compulsory_bytes(self) -> int:
        """Bytes that the module must move at least: its inputs, what it reads of its parameters, its outputs."""
        return self.input_bytes + self.read_param_bytes + self.output_bytes

    @property
    def idle(self) -> float | None:
        """Seconds between this module's kernels, while it ran on the device; None if that is not known."""
        if self.stream_latency is None or self.latency is None:
            return None
        return max(0.0, self.stream_latency - self.latency)

    @property
    def flops_per_second(self) -> float | None:
        """Forward FLOPs over `latency`: on a device, over the time of the module's kernels alone."""
        return self.flops / self.latency if self.latency else None

    @property
    def wall_flops_per_second(self) -> float | None:
        """Forward FLOPs over the time that passed: on a device, waiting between the module's kernels included."""
        wall = self.latency if self.stream_latency is None else self.stream_latency
        return self.flops / wall if wall else None

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved, all phases that ran, every op's inputs and outputs counted; None if nothing moved."""
        work = self.total.total
        return work.flops / work.bytes if work.bytes else None

    def limit(self, device: str | None = None) -> float | None:
        """The least seconds for this subtree's work, all phases that ran, by the roofline of a device.

        `device` is a name that `flopsight device` knows; without one it is the device of the profile.
        None if a peak that it takes is not known.
        """
        from ..analysis.limits.roofline import node_limit

        return node_limit(self, device)

    def bound(self, device: str | None = None) -> str | None:
        """What holds the subtree back on `device`, as in `limit`: compute, memory, launch, communication or "depends on fusion"."""
        from ..analysis.limits.roofline import node_bound

        return node_bound(self, device)

    @of_subtree
    def called(self) -> bool:
        """Whether the module or anything below it ran."""
        return self.calls > 0 or any(child.called for child in self.children)

    def walk(self) -> Iterator[Node]:
        """This node, then everything below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def under(self, conditions: Conditions) -> Node:
        """The same tree for a profile with these `conditions`: itself if no profile with others has it, else a copy.

        How long the step took is asked of the root alone, so profiles that differ in it share what is below.
        """
        if self.conditions is conditions or self.conditions == conditions:
            return self
        children = tuple(child._below(conditions.untimed) for child in self.children)
        if self.conditions is not None or any(map(operator.is_not, children, self.children)):
            return _copied(self, children, conditions)
        self.__dict__["conditions"] = conditions
        return self

    def _below(self, conditions: Conditions) -> Node:
        if self.conditions is conditions or self.conditions == conditions:
            return self
        nodes = list(self.walk())
        others = {id(node.conditions): node.conditions for node in nodes}  # few, while nodes may be many
        if any(other not in (None, conditions) for other in others.values()):
            return rebuilt(self, lambda node, below: _copied(node, below, conditions))
        for node in nodes:
            node.__dict__["conditions"] = conditions
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return all(
            type(one) is type(two) and len(one.children) == len(two.children) and _own_fields(one) == _own_fields(two)
            for one, two in zip(self.walk(), other.walk(), strict=False)
        )

    def __hash__(self) -> int:
        return hash((self.path, self.kind, self.own, len(self.children)))


def _copied(node: Node, children: tuple[Node, ...], conditions: Conditions) -> Node:
    """The same node, with the figures that it has worked out, over other children."""
    twin = object.__new__(Node)
    twin.__dict__.update(node.__dict__, children=children, conditions=conditions)
    return twin


def _active(parts: Iterable[tuple[int, float | None]]) -> int | None:
    total = 0.0
    for elements, share in parts:
        if share is None:
            return None
        total += elements * share
    return round(total)


def _own_fields(node: Node) -> list[Any]:
    return [getattr(node, field.name) for field in fields(node) if field.name != "children"]


def without_numbers(path: str) -> str:
    """The path with `*` for the number of a block, as all blocks of a stack have it: `encoder.*.up`."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def outermost(root: Node, wanted: Callable[[Node], bool]) -> Iterator[Node]:
    """The nodes that are wanted, in the order of the model, without those below another one."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if wanted(node):
            yield node
        else:
            waiting.extend(reversed(node.children))


def build_up(
    root: Item, below: Callable[[Item], Iterable[Item]], make: Callable[[Item, tuple[Node, ...]], Node]
) -> Node:
    """A tree made from the leaves up, without recursion: `make` gets an item and the nodes made of the items below it."""
    items, parents = [root], [0]
    for place, item in enumerate(items):  # grows while it is read: parents before children
        more = list(below(item))
        items += more
        parents += [place] * len(more)
    made: list[list[Node]] = [[] for _ in items]
    for place in range(len(items) - 1, 0, -1):
        made[parents[place]].append(make(items[place], tuple(reversed(made[place]))))
    return make(root, tuple(reversed(made[0])))


def rebuilt(root: Node, make: Callable[[Node, tuple[Node, ...]], Node]) -> Node:
    """A tree of the same shape: `make` gets a node and what was made of its children."""
    return build_up(root, lambda node: node.children, make)
