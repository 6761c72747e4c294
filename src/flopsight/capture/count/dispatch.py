"""Every op that runs, turned into a record: which, with what arguments, in which module and phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction

from ...results.caveats import Note
from ...results.records import FORWARD
from ..hooks import internals
from ..hooks.garbage import rarer_collections
from ..hooks.internals import TorchDispatchMode
from ..hooks.optimizer_steps import optimizer_steps
from ..hooks.patches import Call, eager, inside, module_calls, wrapped
from ..hooks.signals import handlers_apart
from ..model.first_writes import before_writing, writes_are_watched
from ..model.sites import Site, Sites, sites_of
from .attribution import Attribution, Ownership, Position
from .expansion import Body, Exits, in_other_ops
from .higher_order import entering, in_python, is_higher_order
from .live import GATHERED
from .module_watch import ModuleWatch
from .op_notes import OpNotes
from .opinfo import OpInfo, describe, sparse_facts, values_by_name
from .parallel_work import ParallelWork
from .tape import Tape
from .used_storages import written

SAVED_UNSEEN = Note(
    "What is saved for backward was not seen: saved-tensor hooks are disabled here (torch.func does that). "
    "Count outside that block to have it."
)
TAKEN_OFF = Note(
    "Another dispatch mode was left in another order than it was entered, and took the counter off with it: "
    "what ran afterwards is not counted. Begin and end the count inside that mode's block, or outside it."
)


class Counter(TorchDispatchMode):
    """Watches every op inside the `with`, on the thread that entered it and in the backward it begins; a tape holds them."""

    supports_higher_order_operators = True
    has_values = True
    """Whether the tensors that are watched hold numbers, which can be read."""

    def __init__(
        self,
        model: nn.Module | Sites | None,
        known: Callable[[str], bool],
        tape: Tape | None = None,
        *,
        in_loop: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sites = sites_of(model)
        self.tape = Tape() if tape is None else tape
        self.attribution: Attribution | None = None
        self._known = known
        self._in_loop = in_loop
        self._parallel = ParallelWork(self.sites, self.tape)
        self._notes = OpNotes(self.tape, self._parallel)
        self._modules = ModuleWatch(self.sites, self.tape, self._parallel, has_values=self.has_values)
        self._stack = ExitStack()
        self._depth = 0
        self._body: Exits | None = None
        """The custom op whose body, or whose backward, is running."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Compiled code runs eager while we watch, so the guard that torch puts around every op is not needed."""
        return False

    # -- on and off

    def __enter__(self) -> Counter:
        """Begin to watch; entered again while an op runs, the counter watches the ops inside it."""
        first = not self._depth
        if first:
            with ExitStack() as entered:
                self._watch_all(entered)
                self._stack = entered.pop_all()
        self._depth += 1
        # A step may begin inside a mode of the loop and end outside it, so the counter goes below the modes that are on.
        with internals.without_modes() if first and self._in_loop else nullcontext():
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def _watch_all(self, entered: ExitStack) -> None:
        entered.enter_context(rarer_collections())
        entered.enter_context(eager())
        self._attribute(Attribution(self.sites, self.tape, in_loop=self._in_loop))
        entered.callback(self._attribute, None)
        entered.enter_context(module_calls(self.watch, bare=True))
        entered.enter_context(handlers_apart(self._aside))
        entered.enter_context(optimizer_steps(self._begin_step, self._end_step))
        entered.enter_context(wrapped(torch.cuda.CUDAGraph, "replay", self._replays))
        entered.enter_context(wrapped(BackwardCFunction, "apply", self._custom_backwards))
        entered.enter_context(wrapped(internals.HigherOrderOperator, "__call__", partial(in_python, mode=type(self))))
        self._parallel.watch(entered)
        saved = self.tape.saved
        if saved is not None and internals.saved_hooks_allowed():
            entered.enter_context(saved.watching(self._saver, below=self._in_loop))
        elif saved is not None:
            self.tape.doubt(SAVED_UNSEEN)
        self.sites.on_root = self._modules.meet

    def _attribute(self, attribution: Attribution | None) -> None:
        self.attribution = self._modules.attribution = self._parallel.attribution = attribution

    def __exit__(self, *problem: object) -> None:
        try:
            if not internals.bring_to_top(self):
                self.tape.doubt(TAKEN_OFF)
            with internals.modes_held():
                super().__exit__(*problem)  # type: ignore[no-untyped-call]
        finally:
            self._depth -= 1
            if not self._depth:
                if problem[0] is not None:
                    internals.hold_left_modes()
                internals.settle_mode_flags()
                self.sites.on_root = None
                self._stack.close()

    def _aside(self) -> AbstractContextManager[None]:
        attribution = self.attribution
        return attribution.aside() if attribution is not None and attribution.here() is not None else nullcontext()

    def _begin_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.attribution is not None and self.attribution.begin_step():
            self._notes.ownership = Ownership(self.sites, optimizer)

    def _end_step(self) -> None:
        self._notes.ownership = None
        if self.attribution is not None:
            self.attribution.end_step()

    def watch(self, plain: Call) -> Call:
        """Module calls that know their row."""
        return self._modules.watch(plain)

    def _saver(self) -> Site | None:
        """The row that is saving a tensor for backward; None during backward itself."""
        position = self.attribution.here() if self.attribution is not None else None
        if self.attribution is None or position is None:
            return None
        site, phase = self.attribution.where(position)
        return site if phase is FORWARD and not position.setting_up else None

    # -- ops

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if internals.tracing_shapes() or internals.FakeTensor in types:
            return func(*args, **kwargs)  # torch works out a shape, and computes nothing
        infos = self.tape.infos
        info = infos.get(func)
        if info is None:
            info = infos[func] = describe(func, self._known)
        if types and any(map(internals.is_wrapper_type, types)):
            return NotImplemented  # the subclass runs its own ops, and those come here
        if info.writes and writes_are_watched():
            before_writing(written(info, args, kwargs))
        try:
            if info.expand:
                return self._expand(info, func, args, kwargs)
            output = self.run(func, args, kwargs)
        except BaseException as problem:
            if func is torch.ops.aten.equal.default and not isinstance(args[0], torch.Tensor):
                return internals.equal_constants(*args)
            position = self.attribution.here(dispatching=True) if self.attribution is not None else None
            if position is not None:
                self._modules.blame(problem, position)
            raise
        self._note(info, args, kwargs, output)
        return output

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the op; a counter on meta tensors has a faster way."""
        return func(*args, **kwargs)

    def values(self, info: OpInfo, args: Any, kwargs: Any) -> dict[str, Any]:
        """The arguments by name, from which facts are read; a counter on meta tensors puts in the values that it knows."""
        return values_by_name(info, args, kwargs)

    def _note(self, info: OpInfo, args: Any, kwargs: Any, output: Any) -> None:
        """Put an op that ran on the tape: its place, its memory, its facts, and whether it repeats another."""
        attribution = self.attribution
        position = attribution.here(dispatching=True) if attribution is not None else None
        if attribution is None or position is None or (position.setting_up and not info.exchanges):
            return  # while a library sets up, shapes are worked out, once
        info.calls += 1
        if info.kind == "view":
            self._note_view(info, args, output, attribution, position)
            return
        sparse = _touch(attribution, position, args)
        if self._body is not None:
            self._body.note(args if output is None else output)  # an op over lists, in place, returns nothing
        site, phase = attribution.where(position)
        self._notes.note_memory(position, site, phase, args, output)
        facts: tuple[Any, ...] = ()
        if info.exchanges:
            site, phase, facts = self._notes.exchange(info, args, kwargs, output, position, site, phase)
        elif info.facts:
            facts = tuple(info.facts(self.values(info, args, kwargs)).items())
        if sparse:
            facts = (*facts, *sparse_facts(info, args, output))
        if phase is FORWARD:
            self._notes.add_forward(info, args, kwargs, output, facts, site)
        else:
            self._notes.add_after_forward(info, args, kwargs, output, facts, site, phase)

    def _note_view(self, info: OpInfo, args: Any, output: Any, attribution: Attribution, position: Position) -> None:
        """A view does no work, but may show whose forward runs, allocate, or be kept by a checkpoint."""
        saved, live = self.tape.saved, self.tape.live
        if args and type(args[0]) is nn.Parameter:
            attribution.touch(position, args[0])
        if live is not None and info.allocates:
            live.note(output, *attribution.where(position), GATHERED if position.gathering else None)
        if saved is not None and info.name == "aten.detach" and internals.in_checkpoint():
            site, phase = attribution.where(position)
            if phase is FORWARD:
                saved.perhaps_kept(output, site)

    def _expand(self, info: OpInfo, func: Any, args: Any, kwargs: Any) -> Any:
        """Look inside an op that has no formula, if that is safe; else note it as it is."""
        if is_higher_order(func):
            return func(*entering(args, inside(lambda: self)), **kwargs)
        apart = in_other_ops(info, func, args)
        if apart is not None:
            with self:
                output = apart(*args, **kwargs)
            if output is not NotImplemented:
                return output
        python = internals.python_body(func)
        if python is None:
            output = self.run(func, args, kwargs)
        else:
            body = Body(func, args, kwargs)
            with self, self._inside(body):
                output = python(*args, **kwargs)
            if body.seen_whole(output):
                if self._body is not None:
                    self._body.note(output)
                return output
        # Part of the work is done where we cannot look, in numpy or in a kernel of its own.
        self._note(info, args, kwargs, output)
        return output

    @contextmanager
    def _inside(self, body: Exits) -> Iterator[None]:
        """Watch the code of a custom op; another one may be running around it."""
        outer = self._body
        if outer is not None:
            outer.nested = body
        self._body = body
        try:
            with body:
                yield
        finally:
            self._body = outer
            if outer is not None:
                outer.nested = None

    def _custom_backwards(self, apply: Call) -> Call:
        """Note the registered backward of a custom op as unknown if it leaves torch."""

        def applied(node: Any, *gradients: Any) -> Any:
            op = internals.op_of_backward(node)
            if op is None:
                return apply(node, *gradients)
            body = Exits()
            with self._inside(body):
                output = apply(node, *gradients)
            if body.left:
                self._note_unseen(f"{op}_backward", gradients, output)
            return output

        return applied

    def _note_unseen(self, name: str, args: Any = (), output: Any = None) -> None:
        self._note(self.tape.infos.setdefault(name, OpInfo(name, allocates=False, unseen=True)), args, {}, output)

    def _replays(self, replay: Call) -> Call:
        """Note the replay of a CUDA graph as one unknown op: its kernels pass no dispatcher."""

        def replayed(graph: Any) -> Any:
            done = replay(graph)
            self._note_unseen("cuda.graph_replay")
            return done

        return replayed

    @property
    def running(self) -> bool:
        """Whether it still watches."""
        return self._depth > 0


def _touch(attribution: Attribution, position: Position, args: Any) -> bool:
    """Notice parameters among the arguments, which show whose forward runs; True if one of the arguments is sparse."""
    sparse = False
    for value in args:
        if isinstance(value, torch.Tensor):
            if type(value) is nn.Parameter:
                attribution.touch(position, value)
            if value.layout is not torch.strided and not value.is_nested:
                sparse = True
    return sparse
