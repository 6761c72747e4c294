"""Work that sharding libraries do for a module other than the one that runs, once in a lifetime, or for several modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ...results.comm import GroupKey
from ...results.records import BACKWARD, FORWARD
from ..hooks import internals, parallel
from ..hooks.patches import Call, inside, wrapped
from ..model.sites import Site, Sites
from .live import BUCKETS, Live

if TYPE_CHECKING:
    from .attribution import Attribution, Position
    from .tape import Tape


ALL_TO_ALL = ("all_to_all", "alltoall")
ALL_REDUCE = "c10d.allreduce"
POINT_TO_POINT = ("c10d.send", "c10d.recv_")


class ParallelWork:
    """Watches the sharding libraries beside a counter, and says where a collective belongs."""

    def __init__(self, sites: Sites, tape: Tape) -> None:
        self.attribution: Attribution | None = None
        """Where threads are; None while nothing is watched. It is handed over: a cycle would keep the model alive."""
        self.running = False
        """Whether there is a process group."""
        self.watching = False
        """Whether there are other ranks."""
        self._sites = sites
        self._tape = tape
        self.away: dict[GroupKey, tuple[Site, dict[str, Any]]] = {}
        """Groups that tokens were sent out to and not yet fetched back from, with the row that sent them."""
        self.buckets = Buckets(sites, tape.live)
        self._passed_on: dict[int, tuple[Site, str]] = {}
        """Storages that a pipeline stage sends or receives, with its row and the phase that they belong to."""

    def watch(self, entered: ExitStack) -> None:
        """Begin to watch, until the stack closes."""
        self.watching = parallel.has_other_ranks()
        self.running = parallel.is_running()
        if not self.running:
            return
        for root in self._sites.roots.values():
            self.buckets.meet(root)
        for work in parallel.own_work():
            entered.enter_context(wrapped(work.home, work.name, self._for_owner(work)))
        for home, name in parallel.set_ups():
            entered.enter_context(wrapped(home, name, inside(partial(self._placed, setting_up=True))))
        for home, name, phase in parallel.engine_phases():
            entered.enter_context(wrapped(home, name, inside(partial(self._placed, phase=phase))))
        entered.enter_context(wrapped(parallel.work_kind(), "get_future", self._done_at_once))
        # What a backend does to end a collective is part of it: gloo copies the result of a reduce-scatter, NCCL does not.
        entered.enter_context(wrapped(parallel.work_kind(), "wait", inside(internals.without_modes)))
        stage = parallel.stage_kind()
        if stage is not None:
            entered.enter_context(wrapped(stage, parallel.STAGE_RUNS, self._in_stage))
            for name in parallel.STAGE_EXCHANGES:
                entered.enter_context(wrapped(stage, name, partial(self._of_stage, name)))
        if self._tape.live is not None:
            entered.enter_context(wrapped(torch.UntypedStorage, "resize_", partial(self._resizes, self._tape.live)))

    def place(
        self, args: Mapping[str, Any], name: str, position: Position, site: Site, phase: str
    ) -> tuple[Site, str, tuple[tuple[str, Any], ...]]:
        """The row and the phase of a collective, and what is known of the ranks that take part."""
        facts = parallel.group_facts(args)
        if position.setting_up:
            facts["setup"] = True
        elif name in POINT_TO_POINT:
            keys = [internals.storage_key(t) for t in args.get("tensors", ()) if internals.has_storage(t)]
            site, phase = next((self._passed_on[key] for key in keys if key in self._passed_on), (site, phase))
        elif phase is FORWARD and "group" in facts and any(word in name for word in ALL_TO_ALL):
            self._exchange(facts, site)
        elif phase is BACKWARD and name.startswith(ALL_REDUCE) and position.acting is None and _between_nodes():
            wrapper = self.buckets.wrapper or next(iter(self._sites.roots.values()), None)
            site = (self._sites.row(wrapper) if wrapper is not None else None) or site
            if any(tensor.is_floating_point() for tensor in args.get("tensors", ())):
                facts["holds"] = self.buckets.send(args)
            elif getattr(wrapper, "static_graph", False):
                facts["setup"] = True  # which parameters are used at all is asked once
        return site, phase, tuple(facts.items())

    # -- functions of the libraries

    def _for_owner(self, work: parallel.OwnWork) -> Callable[[Call], Call]:
        def around(plain: Call) -> Call:
            def owned(*args: Any, **kwargs: Any) -> Any:
                position = self._position()
                module = work.module_of(args)
                row = self._sites.row(module) if module is not None else None
                if position is None or row is None:
                    return plain(*args, **kwargs)
                try:
                    with self._placed(acting=row, gathering=work.gathers, phase=work.phase or position.phase):
                        return plain(*args, **kwargs)
                finally:
                    if work.gathered is not None:
                        self._tape.note_gathered(work.gathered(args), row)

            return owned

        return around

    @contextmanager
    def _placed(self, **changes: Any) -> Iterator[None]:
        """Change attributes of this thread's position for the time of the block."""
        position = self._position()
        before = {name: getattr(position, name) for name in changes} if position is not None else {}
        for name in before:
            setattr(position, name, changes[name])
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(position, name, value)

    def _done_at_once(self, plain: Call) -> Call:
        """Let the callbacks of DDP's communication hooks run where they are made: gloo runs them on unwatched threads.

        Every rank calls these hooks in the same order, so that waiting for their collectives at once is safe.
        """

        def future(work: Any) -> Any:
            hooked = self.buckets.wrapper is not None and internals.graph_task() != -1 and _between_nodes()
            if hooked and self._position() is not None:
                work.wait()
            return plain(work)

        return future

    def _in_stage(self, plain: Call) -> Call:
        def run(stage: Any, *args: Any, **kwargs: Any) -> Any:
            self._tape.stages[stage.stage_index] = stage.group_rank, stage.group_size
            return plain(stage, *args, **kwargs)

        return run

    def _of_stage(self, name: str, plain: Call) -> Call:
        """Note the tensors that a stage is about to send or receive: activations forward, gradients backward."""
        phase = BACKWARD if "bwd" in name else FORWARD

        def listed(stage: Any, *args: Any, **kwargs: Any) -> Any:
            ops = plain(stage, *args, **kwargs)
            row = self._sites.row(stage.submod)
            if row is None:
                return ops
            for op in ops:
                self._passed_on[internals.storage_key(op.tensor)] = row, phase
            return ops

        return listed

    def _resizes(self, live: Live, plain: Call) -> Call:
        def resized(storage: torch.UntypedStorage, size: int) -> Any:
            done = plain(storage, size)
            position = self._position()
            gatherer = position.acting if position is not None and position.gathering else None
            live.resized(storage, gatherer)
            return done

        return resized

    def _position(self) -> Position | None:
        return self.attribution.here() if self.attribution is not None else None

    # -- experts

    def _exchange(self, facts: dict[str, Any], site: Site) -> None:
        """Tokens that are sent out come back with the next exchange over the same ranks."""
        if self.away.pop(facts["group"], None) is None:
            self.away[facts["group"]] = site, facts

    def note_module(self, site: Site) -> None:
        """A module begins: while tokens are out, it works on those of other ranks."""
        for sender, facts in self.away.values():
            if sender is not site:
                self._tape.experts[site] = facts

    def end_module(self, site: Site) -> None:
        """A module ends: tokens that it sent out are not fetched any more."""
        self.away = {group: sent for group, sent in self.away.items() if sent[0] is not site}


def _between_nodes() -> bool:
    """Whether autograd hands a gradient over, or has run its last node: that is when buckets are sent."""
    node = internals.current_node()
    return node is None or internals.node_sequence(node) >= internals.NO_SEQUENCE


class Buckets:
    """Follows gradients into buckets, where they are written when autograd hands them over."""

    def __init__(self, sites: Sites, live: Live | None) -> None:
        self.wrapper: nn.Module | None = None
        """The wrapper that averages gradients, if it is watched."""
        self._sites = sites
        self._live = live
        self._held: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """By storage: names of the parameters whose gradients were written into it."""
        self._sent: set[int] = set()
        """Storages that were sent: what is written into them next is of another step."""
        self._last_read: int | None = None
        """The last bucket that was read. What a communication hook sends is attributed to it."""
        self._views = False
        """Whether gradients are views of buckets."""

    def meet(self, root: nn.Module) -> None:
        """Look for wrappers in a model: they have their buckets already, whether this run fills them or not."""
        for wrapper in filter(parallel.averages_gradients, root.modules()):
            self.wrapper = self.wrapper or wrapper
            self._views |= bool(wrapper.gradient_as_bucket_view)
            if self._live is not None:
                self._live.expect(BUCKETS, parallel.bucket_bytes(wrapper))

    @cached_property
    def _parameters(self) -> dict[int, tuple[str, torch.Tensor]]:
        """Names and parameters by id."""
        roots = self._sites.roots.items()
        return {id(tensor): (name, tensor) for prefix, root in roots for name, tensor in root.named_parameters(prefix)}

    def note(self, args: Iterable[Any], written: Any) -> None:
        """An op ran in backward: where autograd hands a gradient over, it may have written it into a bucket."""
        node = internals.current_node()
        if node is not None and internals.node_sequence(node) < internals.NO_SEQUENCE:
            return
        for value in args:
            if isinstance(value, torch.Tensor) and internals.has_storage(value):
                key = internals.storage_key(value)
                self._last_read = key if key in self._held else self._last_read
        if node is not None and isinstance(written, torch.Tensor) and internals.has_storage(written):
            self._write(node.variable, written)

    def _write(self, parameter: torch.Tensor, written: torch.Tensor) -> None:
        if self._live is not None and not written.is_floating_point() and self.wrapper is not None:
            self._live.forget(written)  # the wrapper's own list of used parameters, in the first step or in every one
        if (written.shape, written.dtype) != (parameter.shape, parameter.dtype):
            return
        key, gradient = internals.storage_key(written), parameter.grad
        apart = gradient is None or not internals.has_storage(gradient) or internals.storage_key(gradient) != key
        if not apart and not self._views:
            return
        if key in self._sent:
            self._sent.discard(key)
            self._held[key] = {}
        name, _ = self._parameters.get(id(parameter), ("?", parameter))
        self._held[key][name] = None
        if self._live is not None and self.wrapper is not None:
            self._live.label(written, BUCKETS)

    def send(self, args: Mapping[str, Any]) -> tuple[str, ...]:
        """The parameters whose gradients are sent with these tensors."""
        tensors = [tensor for tensor in args.get("tensors", ()) if internals.has_storage(tensor)]
        buckets = [tensor for tensor in tensors if internals.storage_key(tensor) in self._held]
        trained = {name: parameter.nbytes for name, parameter in self._parameters.values() if parameter.requires_grad}
        if not buckets and sum(tensor.nbytes for tensor in tensors) == sum(trained.values()):
            buckets = tensors[:1]  # a static graph hands all gradients over at the end of its first backward
            self._held |= {internals.storage_key(tensor): dict.fromkeys(trained) for tensor in buckets}
        if self._live is not None:
            for tensor in buckets:
                self._live.label(tensor, BUCKETS)
        full = [internals.storage_key(tensor) for tensor in buckets]
        if not full and self._last_read is not None:
            full = [self._last_read]
        self._sent.update(full)
        return tuple(name for key in full for name in self._held[key])
