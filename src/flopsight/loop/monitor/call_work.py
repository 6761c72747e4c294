"""The work of each call of the model: known by its shapes, or counted when they are new."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import nan
from typing import Any

import torch
from torch import nn

from ...capture.hooks import internals
from ...capture.hooks.patches import Call
from ...capture.model.model_run import ModelRun, batch_size_of, tokens_of
from ...capture.model.tensors import tensors_in
from ...capture.time.clock import pausing
from ...capture.twin.known_values import Unknowable
from ...capture.twin.meta_copy import NoTwinError
from .backward_path import CallGraph, calls_reached, entrances, wanted
from .counted_work import UNCOUNTED, UNKNOWN, CallCount, CountedWork, Work, count_call, may_train
from .live_steps import LiveSteps, SlowProfile
from .members import Members
from .padding_masks import counted_later, mask_at, padding_mask
from .signatures import Signatures, choices, shapes_of
from .step import CallKind, Given, Step, StepCalls, size_of
from .step_clock import StepClock

BACKWARD, GRADIENTS = -1, -3
"""In the history of a step: a backward, and which gradients it makes if not all."""
OFTEN, SELDOM = 4, 128
"""The sizes of a call's products are compared in so many calls of a kind, and then in one of so many."""
MOST_SIZES = 64
MOST_PATHS = 1024
MOST_KINDS = 4096
STEERED = "calls with equal arguments do different work"
HIDDEN = "The FLOPs of further steps are not known: compiled code does different work for equal arguments."


class CallUnderWay:
    """What is noted when a call begins, for its end."""

    began = -1
    """Where it began in autograd's numbering; -1 without gradients."""
    given: Given | None = None
    """What it was called with; None if the step is counted while it runs."""
    paused = 0.0
    """Seconds that flopsight had taken on this thread."""
    doubt: str | None = None
    """The note of why steps are counted from this call on: if it raises, the reason is the call."""


class CallWork:
    """Adds the work of every call to its step."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        optimizer: torch.optim.Optimizer | None,
        clock: StepClock,
        device: torch.device,
    ) -> None:
        self.members = Members(models, optimizer)
        self.counted = CountedWork.on(device)
        self.notes: dict[str, None] = {}
        """What a user should know; a dict, to keep the order."""
        self.slow: SlowProfile | None = None
        """Who wants a profile of a slow step."""
        self._clock = clock
        self._device = None if device.type == "meta" else device.type
        """Whose autocast counts; meta has none."""
        self._now = CallUnderWay()
        self._signatures: dict[int, Signatures] = {}
        self._live: LiveSteps | None = None
        """There if the work of a step is more or less than that of its calls."""
        self._sizes_vary = False
        """True once calls with equal arguments had products of other sizes."""
        self._kinds: dict[Hashable, CallKind] = {}
        self._families: dict[Hashable, int] = {}
        self._paths: dict[Hashable, tuple[int, ...]] = {}
        """Through which calls a backward goes, by what the step did before it, where it enters them, and where their outputs are."""

    @property
    def called(self) -> bool:
        """True once a model was called in a step."""
        return bool(self._kinds)

    def begin(self, step: Step, module: nn.Module, grad: bool, args: Any, kwargs: dict[str, Any], call: Call) -> Call:
        """A call begins that belongs to a step, with or without gradients."""
        device = self._device
        known = self._signatures.get(id(module))
        if known is None or known.module() is not module:
            known = self._signatures[id(module)] = Signatures(module)
            for one in self._kinds.values():
                one.calls = 0  # a layer may have been replaced by one like it that does other work
        autocast = device and torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        state: Hashable = known.state(module, autocast, grad)
        if internals.derived():
            state = (state, tuple(map(internals.derived_shape, tensors_in((args, kwargs, list(module.parameters()))))))
        key = (known.of(args, kwargs), state)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._new_kind(key, state, module, args, kwargs)
        calls, sums, now = step.calls, step.sums, self._now
        calls.number += 1
        calls.kinds += (kind,)
        made_of = entrances(tensors_in((args, kwargs)), calls.graphs) if kind.passed_on else None
        calls.history += ((kind.path, made_of),)
        sums.tokens += kind.tokens if kind.mask is None else self._unpadded(step, mask_at(kind.mask, args, kwargs))
        sums.samples += kind.samples
        if self._live is None:
            count = kind.count
            if count is None:
                count = self._count(step, kind, module, args, kwargs)
            work = count.forward
            sums.flops += work.flops  # as `Sums.add`, without a call
            sums.at_peak += work.at_peak
            sums.all_at_peak += work.all_at_peak
            if work.estimated:
                sums.estimated = True
            now.given = module, args, kwargs
        now.paused = self._clock.pauses[0]
        now.began = internals.sequence_number() if grad else -1
        if self._live is not None:
            return self._live.begin(step, module, call)
        return call if self.slow is None else self.slow.begin(step, module, call)

    def failed(self, step: Step) -> bool:
        """The call has raised; gives whether it had gradients. What it is called with may be wrong, which says nothing of the model."""
        step.calls.graphs += (None,)
        step.calls.made += (0,)
        step.sums.tokens = step.sums.samples = nan
        step.fail()
        doubt = self._now.doubt
        self._now.given = self._now.doubt = None
        if doubt is not None and self._live is not None:
            self._live.close()
            self._live = None
            del self.notes[doubt]
        return self._now.began >= 0

    def end(self, step: Step, output: Any) -> None:
        """The call has returned."""
        calls, now = step.calls, self._now
        kind, begin, given = calls.kinds[-1], now.began, now.given
        now.doubt = now.given = None
        end = internals.sequence_number() if begin >= 0 else begin
        plain = type(output) is torch.Tensor and not output.is_nested
        made: Hashable = (end - begin, output.shape if plain else shapes_of(output))
        if kind.made and not step.slowed and self._clock.pauses[0] != now.paused:
            made = kind.made  # a profiler of ours ran in the call, and made nodes of its own
        live = self._live
        graph = None if begin < 0 else CallGraph.of(begin, end, output) if live is None else CallGraph(begin, end)
        if live is None and kind.made != made and given is not None:
            self._other_graph(step, kind, made, given)
        if live is not None and live.varies:
            made = end - begin  # each step has other values, and may be as wide as none before
        elif graph is not None:
            if live is not None and made not in kind.sizes:
                kind.calls = 0
            if self._sizes_vary or kind.calls < OFTEN or not kind.calls % SELDOM:
                made = self._with_sizes(step, kind, made, graph, output)
        calls.graphs += (graph,)
        calls.made += (made,)
        kind.calls += 1

    def _with_sizes(self, step: Step, kind: CallKind, made: Hashable, graph: CallGraph, output: Any) -> Hashable:
        """An attribute or chance may steer how wide a call works, with as many nodes as before: if so, sizes tell calls apart."""
        with pausing():
            sizes = graph.sizes(output)
        usual = kind.sizes.get(made)
        if usual is None or internals.times_compiled() != kind.compiled:
            if len(kind.sizes) >= MOST_SIZES:
                kind.sizes.clear()
            kind.sizes[made] = sizes
        elif sizes != usual:
            self._sizes_vary = True
            if self._count_steps(STEERED):
                step.sums.set(UNKNOWN)
        return (made, sizes) if self._sizes_vary else made

    def _other_graph(self, step: Step, kind: CallKind, made: Hashable, given: Given) -> None:
        """A call made other nodes or outputs than the one before: something steers the work that its arguments do not show."""
        kind.sizes.clear()
        usual, compiled = kind.made, internals.times_compiled()
        if compiled != kind.compiled:  # a compiler makes nodes of its own, and code that makes others afterwards
            kind.made, kind.compiled = 0, compiled
            if usual is not None:
                self._compiled_again(step, kind, given)
            return
        kind.made, kind.calls = made, 0
        if usual:
            self._count_steps(STEERED)
            step.sums.set(UNKNOWN)

    def _compiled_again(self, step: Step, kind: CallKind, given: Given) -> None:
        """Code was compiled anew for arguments that it was compiled for before: mostly for the same work, which a count tells.

        If not, no later call will tell which of its codes it runs.
        """
        before = kind.count
        if before is None or self.counted.full:
            return
        again = self._count(step, kind, *given)
        if (again.forward.flops, again.backward.flops) != (before.forward.flops, before.backward.flops):
            self.notes[HIDDEN] = None
            step.sums.set(UNKNOWN)
            for known in self._kinds.values():
                known.count = UNCOUNTED

    def rebuilt(self) -> None:
        """A module was put into another: models may have changed."""
        self._signatures.clear()

    def backward_begins(self, step: Step, tensors: Any, partial: bool, inputs: Any) -> None:
        """A backward begins: add the work of the calls that it goes through."""
        calls = step.calls
        calls.backwards += 1
        if not calls.graphs:
            return
        calls.history += ((BACKWARD, entrances(tensors, calls.graphs)),)
        if inputs is not None:
            calls.history += ((GRADIENTS, wanted(inputs, calls.graphs)),)
        if self._live is not None:
            return
        outputs: tuple[Hashable, ...] = ()
        for graph in calls.graphs:
            if graph is not None and len(graph.outputs) > 1:
                outputs += (graph.places,)
        before = (calls.history, outputs) if outputs else calls.history
        path = self._paths.get(before)
        if path is None or partial:
            path = self._path(calls, before, tensors, partial)
            if path is None:
                self._count_steps("its backward does not go through the model as a loss does")
                step.sums.set(UNKNOWN)
                return
        for at in path:
            count = calls.kinds[at].count
            step.sums.add(UNKNOWN if count is None else count.backward)

    def _path(self, calls: StepCalls, before: Hashable, tensors: Any, partial: bool) -> tuple[int, ...] | None:
        with pausing():
            path = None if partial else calls_reached(tensors, calls.graphs)
        if path is not None and len(self._paths) < MOST_PATHS:
            self._paths[before] = path
        return path

    def step_ends(self, step: Step) -> None:
        """The step is over."""
        for graph in step.calls.graphs:
            if graph is not None:
                graph.nodes = ()  # a step may be held for a while, its graph may not
        if step.failed:
            step.fail()  # another thread may have noticed it, between two sums of this one
        if self.slow is not None:
            self.slow.end()
        if self._live is not None:
            count = self._live.end(step)
            step.sums.set(count.forward + count.backward)
        elif step.calls.pending and not step.calls.backwards and step.calls.graphs:
            self._count_steps("its gradients are not made by a backward() that we see")
            step.sums.set(UNKNOWN)

    def found_later(self, key: Hashable) -> Work:
        """The work of a step that was not known when it ended, if one like it was counted since."""
        count = self.counted.known.get(key, UNCOUNTED)
        return count.forward + count.backward

    def close(self) -> None:
        """Stop at once."""
        for counting in (self._live, self.slow):
            if counting is not None:
                counting.close()

    def _count_steps(self, why: str, *, varies: bool = False) -> str | None:
        """From the next step on, count steps while they run; gives the note of it, if it is new."""
        if self._live is None:
            self._live = LiveSteps(self.counted, varies=varies)
            note = f"Steps are counted while they run, which slows the first of each kind: {why}."
            self.notes[note] = None
            return note
        return None

    def _new_kind(self, key: Hashable, state: Hashable, module: nn.Module, args: Any, kwargs: Any) -> CallKind:
        """A kind of call that was not seen before; its work is not counted yet."""
        if torch.is_grad_enabled():
            self.members.trained.add(module)
        passed_on = any(tensor.requires_grad for tensor in tensors_in((args, kwargs)))
        family = self._families.setdefault((state, passed_on), len(self._families))
        path = self._families.setdefault((state, passed_on, choices(args, kwargs)), len(self._families))
        run = ModelRun(module, args, kwargs)
        tokens, samples = tokens_of(run), batch_size_of(run)
        mask = padding_mask(tokens, self._signatures[id(module)].names, args, kwargs)
        kind = CallKind(key, state, family, path, passed_on, tokens or nan, samples or nan, mask)
        kind.compiled = internals.times_compiled()
        if len(self._kinds) < MOST_KINDS:
            self._kinds[key] = kind
        return kind

    def _unpadded(self, step: Step, mask: torch.Tensor) -> int:
        """The tokens that a mask keeps; those of a mask on a device are told later."""
        if mask.is_cpu:
            return int(torch.count_nonzero(mask))
        step.masks += (counted_later(mask),)
        return 0

    def _count(self, step: Step, kind: CallKind, module: nn.Module, args: Any, kwargs: Any) -> CallCount:
        if HIDDEN in self.notes:
            kind.count = UNCOUNTED
            return UNCOUNTED
        size = size_of(kind.tokens, kind.samples)
        if self.counted.full:
            self.notes["The FLOPs of some steps are interpolated: too many shapes were counted already."] = None
            kind.count = self.counted.estimate(kind.family, size)
            return kind.count
        if internals.derived():
            self._now.doubt = self._count_steps("a transform of torch makes derivatives beside its calls")
            return UNCOUNTED
        begin = self._clock.moment()
        try:
            profile, read = count_call(module, args, kwargs, train=may_train(module, args, kwargs))
        except NoTwinError as problem:
            varies = isinstance(problem.__cause__, Unknowable)
            why = f"{type(module).__name__} has no copy without data ({problem})"
            self._now.doubt = self._count_steps(why, varies=varies)
            return UNCOUNTED
        finally:
            step.time.counted += ((begin, self._clock.moment()),)
        kind.count = self.counted.remember(kind.key, kind.family, size, profile)
        known = self._signatures.get(id(module))
        if known is not None:  # what the call put into the model may have cleared them
            known.values_were_read(read, kind.family, args, kwargs, kind.count)
            if read:  # calls with equal values are of this kind from now on
                self._kinds[known.of(args, kwargs), kind.state] = kind
        return kind.count
