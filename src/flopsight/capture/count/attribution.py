"""Which row and which phase an op belongs to, in forward, in backward and in an optimizer's step, thread by thread."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from ...results.records import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTE
from ..hooks import internals
from ..model.sites import Site, Sites
from ..model.tensors import flat, local_part, raw
from .tape import Tape

FARTHEST = 40
"""How many Python frames we look up for a `forward` that was called by hand."""


MOST_MARKS = 1 << 20
"""Marks kept of which module made which autograd nodes: more than a step needs, so that a long recording stays small."""


class Position:
    """Where one thread is: the module it runs, and which module made which autograd nodes."""

    __slots__ = (
        "acting", "after_backward", "direct", "gathering", "numbers", "phase", "relabelled", "rows", "setting_up", "site", "task",
    )  # fmt: skip

    def __init__(self, site: Site) -> None:
        self.site = site
        self.numbers = [-1]
        self.rows = [site]
        self.task = -1
        self.direct: tuple[Site, FrameType] | None = None
        self.after_backward = False
        self.relabelled = False
        self.acting: Site | None = None
        """The row that gets the work of a sharding library, if it is not the running module's."""
        self.gathering = False
        """Whether it gathers weights."""
        self.phase: str | None = None
        """The phase of what runs outside every module and every backward, if an engine says so."""
        self.setting_up = False
        """Whether what runs is done once, in the first steps."""

    def mark(self, site: Site, already_made: int = 0) -> None:
        """From the next autograd node on (or the one just made), `site` is the maker."""
        number = internals.sequence_number() - already_made
        if number <= self.numbers[-1]:
            self.rows[-1] = site
        else:
            self.numbers.append(number)
            self.rows.append(site)
            if len(self.numbers) > MOST_MARKS:  # nodes of long ago belong to no row, should they still run
                del self.numbers[1 : MOST_MARKS // 2], self.rows[1 : MOST_MARKS // 2]

    def maker(self, number: int) -> Site:
        """The row whose forward made the autograd node with that number."""
        return self.rows[bisect_right(self.numbers, number) - 1]


class Attribution:
    """The positions of the thread that began to watch and of the threads that its backward runs on."""

    def __init__(self, sites: Sites, tape: Tape, *, in_loop: bool = False) -> None:
        self.sites = sites
        self.boundary: CodeType | None = None
        """The code of a watched module call."""
        self._optimizing: Site | None = None
        """The row in which an optimizer's step runs: outside all modules, unless a forward makes one."""
        self._tape = tape
        self._aside = 0
        self._owner = threading.get_ident()
        self._positions = {self._owner: Position(sites.outside)}
        # a step of a loop begins right after the last update: averages of the weights may still be updated
        self._positions[self._owner].after_backward = in_loop

    def here(self, *, dispatching: bool = False) -> Position | None:
        """This thread's place; a thread that carries our mode into backward gets one when it is first seen.

        While the mode handles an op (`dispatching`) it is off the thread's stack, though it is ours.
        """
        if self._aside:
            return None
        thread = threading.get_ident()
        position = self._positions.get(thread)
        if position is None and internals.graph_task() != -1 and (dispatching or internals.dispatch_depth()):
            position = self._positions[thread] = Position(self.sites.outside)
        return position

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside the block nothing belongs to the model."""
        self._aside += 1
        try:
            yield
        finally:
            self._aside -= 1

    def begin_step(self) -> bool:
        """An optimizer begins its step; False on a thread that is not watched."""
        position = self.here()
        if position is not None:
            self._optimizing = position.site
        return position is not None

    def end_step(self) -> None:
        """It ends its step."""
        self._optimizing = None

    def pass_by(self, module: nn.Module) -> None:
        """Note a module that is called on a thread that is not watched."""
        row = self.sites.row(module)
        if row is not None and threading.get_ident() not in self._positions:
            self._tape.elsewhere.add(row)

    def where(self, position: Position) -> tuple[Site, str]:
        """The row and the phase that an op belongs to."""
        if position.acting is not None:
            return position.acting, self._where(position)[1]
        return self._where(position)

    def _where(self, position: Position) -> tuple[Site, str]:
        site = position.site
        task = internals.graph_task()
        if task == -1:
            if site is self._optimizing:  # a module that the step calls is a forward again
                return site, OPTIMIZER
            if position.direct is not None:
                if self._running(position.direct[1]):
                    return position.direct[0], FORWARD
                position.direct = None
            if position.relabelled:
                position.relabelled = False
                position.mark(site, already_made=1)
            if position.phase is not None and site is self.sites.outside:
                return site, position.phase
            if site is self.sites.outside and position.after_backward and not torch.is_grad_enabled():
                return site, OPTIMIZER
            return site, FORWARD
        position.after_backward = True
        if site is not self.sites.outside and position.task != -1:
            return site, RECOMPUTE  # it was called in a backward; a module that makes one was called before
        # a hook on a parameter may step its optimizer as soon as the gradient is there
        if self._optimizing is not None and not torch.is_grad_enabled():
            return site, OPTIMIZER
        return self._backward(position, task)

    def _backward(self, position: Position, task: int) -> tuple[Site, str]:
        """The module that made the running autograd node; or the one whose checkpoint is being recomputed."""
        node = internals.current_node()
        if node is None:
            return self.sites.outside, BACKWARD
        number = internals.node_sequence(node)
        if number >= internals.NO_SEQUENCE:
            return self.sites.owners.get(id(node.variable), self.sites.outside), BACKWARD
        # A nested backward that this thread began runs nodes that this thread made; any other, the owner's.
        nested = len(position.numbers) > 1 and position.task not in (-1, task)
        maker = (position if nested else self._positions[self._owner]).maker(number)
        if not torch.is_grad_enabled():
            return maker, BACKWARD
        if node.name() == "CheckpointFunctionBackward" or internals.in_checkpoint():
            return self._module_above() or maker, RECOMPUTE
        position.mark(maker, already_made=1)  # double backward: what this op adds to the graph is the module's too
        position.relabelled = True
        return maker, BACKWARD

    def touch(self, position: Position, parameter: Any) -> None:
        """Notice a module whose `.forward()` was called by hand: it touches its parameter outside its own call."""
        owner = self.sites.owners.get(id(parameter))
        if owner is None or owner.module == position.site.module or internals.graph_task() != -1:
            return
        if position.direct is not None and position.direct[0] is owner:
            return
        frame = self._forward_of(owner)
        if frame is not None:
            position.direct = (owner, frame)
            position.mark(owner)
            self._tape.direct_forwards.add(owner.path)

    def _frames(self) -> Iterator[FrameType]:
        """The Python frames above us, up to the module call that we are in."""
        frame: FrameType | None = sys._getframe(2)
        for _ in range(FARTHEST):
            if frame is None or frame.f_code is self.boundary:
                return
            yield frame
            frame = frame.f_back

    def _running(self, sought: FrameType) -> bool:
        return any(frame is sought for frame in self._frames())

    def _forward_of(self, owner: Site) -> FrameType | None:
        for frame in self._frames():
            if frame.f_code.co_name == "forward":
                module = frame.f_locals.get("self")
                if isinstance(module, nn.Module) and self.sites.row(module) is owner:
                    return frame
        return None

    def _module_above(self) -> Site | None:
        """The module whose method is running, if a checkpoint calls one without a module call."""
        for frame in self._frames():
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module):
                return self.sites.row(module)
        return None


Part = tuple[Site, tuple[Any, ...], tuple[Any, ...], Any]


class Ownership:
    """The rows that the tensors of one optimizer step belong to; results belong to the row of their operands.

    Storages are compared and not tensors: an optimizer works on views, and a sharded parameter is a wrapper.
    """

    def __init__(self, sites: Sites, optimizer: torch.optim.Optimizer) -> None:
        self._outside = sites.outside
        self._rows: dict[int, Site] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                row = sites.owners.get(id(parameter))
                if row is not None:
                    state = optimizer.state.get(parameter, {})
                    for tensor in flat([parameter, parameter.grad, state]):
                        self._rows[_key(tensor)] = row

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Iterator[Part]:
        """One call as one part a row: an op over lists of tensors works on many parameters at once."""
        lists = [value for value in args if isinstance(value, list | tuple) and value and _tensors(value)]
        if not lists:
            row = self._row_of(flat((args, kwargs)))
            for tensor in flat(output):
                self._rows[_key(tensor)] = row
            yield row, tuple(map(raw, args)), tuple((name, raw(value)) for name, value in kwargs.items()), raw(output)
            return
        length = len(lists[0])
        rows = [self._row_of(values[i] for values in lists if i < len(values)) for i in range(length)]
        if isinstance(output, list | tuple) and len(output) == length:
            for tensor, row in zip(output, rows, strict=True):
                self._rows[_key(tensor)] = row
        for row in dict.fromkeys(rows):
            chosen = [i for i in range(length) if rows[i] is row]

            def part(value: Any, chosen: list[int] = chosen) -> Any:
                if isinstance(value, list | tuple) and len(value) == length:
                    return raw(tuple(value[i] for i in chosen))
                return raw(value)

            yield row, tuple(map(part, args)), tuple((name, part(v)) for name, v in kwargs.items()), part(output)

    def _row_of(self, tensors: Iterable[torch.Tensor]) -> Site:
        """The row of the first tensor that has one."""
        found = (self._rows.get(_key(tensor)) for tensor in tensors)
        return next((row for row in found if row is not None), self._outside)


def _key(tensor: torch.Tensor) -> int:
    local = local_part(tensor)
    return internals.storage_key(local) if internals.has_storage(local) else id(local)


def _tensors(values: Any) -> bool:
    return all(isinstance(value, torch.Tensor) for value in values)
