"""Counts one run, on real tensors or on a twin: shared by profile(), count(), recording() and the step window."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from ..capture.count.dispatch import Counter
from ..capture.count.live import GRADIENTS, INPUTS, OPTIMIZER_STATE, PARAMETERS, Live, held_by
from ..capture.count.saved import Saved
from ..capture.count.tape import Tape
from ..capture.hooks import internals
from ..capture.hooks.garbage import rarer_collections
from ..capture.hooks.optimizer_steps import steps_unheard
from ..capture.hooks.parallel import divides_attention, shards_of_gathered
from ..capture.hooks.patches import unseen
from ..capture.hooks.signals import counters_aside
from ..capture.model.first_writes import kept_if_written
from ..capture.model.model_run import ModelRun
from ..capture.model.outside_caches import kept_outside_caches
from ..capture.model.restore import Values, kept_inputs, kept_model, kept_rng, own_autocast_cache
from ..capture.model.sites import Sites, sites_of
from ..capture.model.training_state import kept_from_own_steps, kept_gradients, kept_training_state
from ..capture.time.clock import pausing
from ..capture.twin.meta_copy import NoTwinError, twin_of
from ..capture.twin.meta_counter import MetaCounter
from ..distributed.patience import asking_after
from ..distributed.shards import inside as inside_of
from ..distributed.topology import is_engine
from ..errors import InputError, StateError
from ..formulas import known
from ..results.caveats import Note, NoTwin, PutBack, Raised
from ..results.profile import Profile
from .parallel_figures import figures_of, in_its_world, unsharded_run, with_whole, with_whole_of_calls
from .run_profile import DEFAULTS, Options, build_profile, state_tensors


@contextmanager
def kept(run: ModelRun) -> Iterator[int]:
    """Put back whatever a run changes, also when it raises; gives the bytes that are copied for that."""
    with ExitStack() as stack:
        stack.enter_context(kept_rng())
        stack.enter_context(own_autocast_cache())
        copied = stack.enter_context(kept_model(run.model)) + stack.enter_context(kept_inputs(run.tensors))
        stack.enter_context(kept_if_written(run))
        if run.train:
            optimizer = None if run.copied else run.optimizer
            copied += stack.enter_context(kept_training_state(run.model, optimizer))
        if run.optimizer is None:
            stack.enter_context(kept_from_own_steps())
        if not run.train:
            stack.enter_context(kept_gradients(()))
        yield copied


@contextmanager
def apart() -> Iterator[None]:
    """Run a twin inside this block: random states stay, and no mode, hook or watcher from outside sees a meta tensor."""
    with kept_rng(), unseen(), internals.without_modes(), internals.without_saved_hooks():
        yield


@contextmanager
def own_work() -> Iterator[None]:
    """Run a model of the user's inside this block for us: what counts or times the user's own work does not see it."""
    with pausing(), unseen(), steps_unheard(), counters_aside():
        yield


CPU = torch.device("cpu")
NO_CONTEXT_PARALLEL = (
    "Context parallel runs on a GPU only, since torch does not divide the attention kernels of a CPU: "
    "count this model on a GPU, or outside context_parallel()."
)
ENGINE_ON_TWIN = Note(
    "A step of a DeepSpeed engine cannot be undone, so its model was counted on a copy without data: memory is that of the "
    "whole model, and what ranks exchange is not seen. To see it, record a step of the loop: "
    "with flopsight.recording(engine)."
)


def make_counter(model: nn.Module | Sites | None, options: Options) -> Counter:
    """A counter for a model's run, real or on meta."""
    sites = sites_of(model)
    there = held_by(sites.modules)
    there[PARAMETERS] += shards_of_gathered(sites.roots.values()).values()
    there[INPUTS] = options.run.tensors if options.run is not None else []
    live = Live(there | {OPTIMIZER_STATE: state_tensors(options)}) if options.memory else None
    tape = Tape(Saved([tensor for tensors in there.values() for tensor in tensors], live), live)
    if options.target is not None:
        return MetaCounter(sites, known, tape, target=options.target, casts=options.casts)
    return Counter(sites, known, tape, in_loop=options.in_loop)


class Recording:
    """What ran inside a `with`; `profile` is ready afterwards, also when the block raised."""

    def __init__(self, model: nn.Module | Sites | None = None, options: Options = DEFAULTS) -> None:
        if model is not None and not isinstance(model, nn.Module | Sites):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self._model = ModelRun(model).plain_model if isinstance(model, nn.Module) else model
        self._options = options
        self._counter: Counter | None = None
        self._made: Profile | None = None

    def __enter__(self) -> Recording:
        if self._counter is not None:
            raise StateError("This recording has run already; make a new one: with flopsight.recording() as r: ...")
        self._counter = make_counter(self._model, self._options)
        self._counter.__enter__()
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        assert self._counter is not None
        self._counter.__exit__(kind, problem, trace)
        if problem is not None:
            self.ended_by(problem)

    def ended_by(self, problem: BaseException) -> None:
        """Note the exception that ended the run."""
        if self._counter is not None:
            tape = self._counter.tape
            module, phase = tape.where_raised(problem) or (None, "")
            tape.doubt(Raised(type(problem).__name__, module, phase, failed_allocation(problem)))

    def label(self, run: ModelRun) -> None:
        """Note the run, and label its gradients and the optimizer's state while they are alive."""
        self._options = replace(self._options, run=run)
        live = self._counter.tape.live if self._counter is not None else None
        if live is not None:
            parameters, state = list(run.model.parameters()), state_tensors(self._options)
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            for gradient in gradients:
                live.label(gradient, GRADIENTS)
            for tensor in state:
                live.label(tensor, OPTIMIZER_STATE)
            if self._options.offloaded:
                live.forget(*parameters, *gradients, *state)

    @property
    def profile(self) -> Profile:
        """What ran, as a profile."""
        counter = self._ran
        if self._made is not None:
            return self._made
        made = build_profile(counter.tape, counter.sites, self._options)
        if self._options.run is None and made.world.size > 1:
            device = next((p.device for root in counter.sites.roots.values() for p in root.parameters()), CPU)
            made = with_whole_of_calls(made, counter.tape, device.type, _count_unsharded)
        if not counter.running:  # a profile that is asked for in between is not the last one
            self._made = made
        return made

    @property
    def tape(self) -> Tape:
        """What was seen, before anything is priced."""
        return self._ran.tape

    @property
    def _ran(self) -> Counter:
        if self._counter is None:
            raise StateError("Nothing was recorded yet: run the model inside `with flopsight.recording() as r:` first.")
        return self._counter


def failed_allocation(problem: BaseException) -> str:
    """The allocation that failed, from torch's out-of-memory message; empty for any other exception."""
    found = re.search(r"tried to allocate ([\d.]+ ?\w+)", str(problem), re.IGNORECASE)
    return found[1] if found else ""


def count_run(run: ModelRun, options: Options = DEFAULTS, *, meta: bool = False) -> Profile:
    """Run once under the counter, on meta if that is asked for and can be; the model is as it was afterwards."""
    with own_work(), rarer_collections():
        return _count(run, options, meta)


def _count(run: ModelRun, options: Options, meta: bool) -> Profile:
    if run.without_data:
        return _count_fake(run, options)
    if run.device.type == "meta":
        return _count_here(_all_on_meta(run), replace(options, target=options.target or "meta"))
    if run.train and is_engine(run.model):
        return _count_engine(run, options)
    if not meta:
        return _count_here(run, options)
    try:
        return count_on_twin(run, options).recording.profile
    except NoTwinError as problem:
        why = str(problem)
    result = _count_here(run, options)
    return replace(result, caveats=(*result.caveats, NoTwin(why)))


def _count_fake(run: ModelRun, options: Options) -> Profile:
    """FakeTensors compute nothing, so what they stand for is counted on a twin."""
    try:
        return count_on_twin(run, options).recording.profile
    except NoTwinError as problem:
        raise InputError(
            f"FakeTensors compute nothing, and this model has no copy on meta that could be counted instead ({problem}): "
            f"count it with real tensors, outside FakeTensorMode."
        ) from problem


def _all_on_meta(run: ModelRun) -> ModelRun:
    """A run of a model on meta; one with parameters elsewhere, as `torch.Tensor(3)` makes them, cannot be trained as it is."""
    if all(parameter.is_meta for parameter in run.model.parameters()):
        return run
    try:
        return twin_of(run)
    except NoTwinError:
        return run


@dataclass(frozen=True)
class TwinCount:
    """A run that was counted on a meta twin."""

    recording: Recording
    parameters: list[torch.Tensor]
    """The memory that the twin's parameters had before the run; it knows whether an op wrote into it."""


def count_on_twin(
    run: ModelRun, options: Options = DEFAULTS, make: Callable[[ModelRun], ModelRun] = twin_of
) -> TwinCount:
    """Make a run on a meta twin of its model, under the counter; raises NoTwinError if that cannot be."""
    target = options.target or run.device.type
    begun: Recording | None = None
    try:
        with apart(), kept_outside_caches(run.model):
            twin = make(run)
            parameters = [parameter.detach() for parameter in twin.model.parameters()]
            recording = Recording(twin.model, replace(options, run=twin, target=target))
            with recording as begun:
                twin.step()
                recording.label(twin)
    except NoTwinError:
        raise
    except Exception as problem:
        tape = begun.tape if begun is not None else None
        raise NoTwinError(f"it does not run on meta ({type(problem).__name__}: {problem})", tape) from problem
    return TwinCount(recording, parameters)


def _count_here(run: ModelRun, options: Options) -> Profile:
    given = _given_shapes(run)
    recording = Recording(run.model, replace(options, run=run))
    with kept(run) as copied:
        try:
            with recording as watching, asking_after():
                run.step()
                watching.label(run)
        except Exception as problem:
            attach(problem, recording)
            if run.device.type == "cpu" and divides_attention():
                raise InputError(NO_CONTEXT_PARALLEL) from problem
            raise
        result = with_whole(recording.profile, run, _count_unsharded) if options.whole else recording.profile
        if run.train and copied and not run.copied:
            result = replace(result, caveats=(*result.caveats, PutBack(copied, run.optimizer is not None)))
        if given and not run.copied:
            result = replace(result, caveats=(*result.caveats, _no_longer_lazy(given)))
        return result


def _count_engine(run: ModelRun, options: Options) -> Profile:
    """A DeepSpeed engine's step cannot be undone, so its model is counted on a twin, in the rows that it has."""
    try:
        recording = count_on_twin(unsharded_run(run), replace(options, memory=True, target=run.device.type)).recording
    except NoTwinError as problem:
        raise InputError(
            f"A step of a DeepSpeed engine cannot be undone, and its model has no copy without data ({problem}): "
            f"record a step of the loop, with flopsight.recording(engine)."
        ) from problem
    inside = replace(run, model=inside_of(run.model))
    result = build_profile(recording.tape, Sites(inside.model), replace(options, run=inside))
    world = in_its_world(result, recording.tape, Sites(run.model)).world
    return replace(
        result, world=world, unsharded=figures_of(recording.profile), caveats=(*result.caveats, ENGINE_ON_TWIN)
    )


def _count_unsharded(run: ModelRun, target: str) -> Profile:
    """The costs and the memory of a run of a model without data, as it would be on a device."""
    return count_on_twin(run, Options(memory=True, target=target)).recording.profile


def _given_shapes(run: ModelRun) -> list[str]:
    """Give lazy modules their shapes, which they take from their first forward; gives their names."""
    lazy = [m for m in run.model.modules() if isinstance(m, LazyModuleMixin) and m.has_uninitialized_params()]
    if not lazy:
        return []
    buffers = Values(run.model.buffers())
    with kept_rng(), kept_inputs(run.tensors), torch.no_grad():
        try:
            run.forward()
        finally:
            buffers.put_back()
    for module in lazy:
        if isinstance(module, internals.NormBase):
            module.reset_running_stats()  # which it did not have before this batch
    return [name for name, module in run.model.named_modules() if module in lazy]


def _no_longer_lazy(names: list[str]) -> Note:
    shown = ", ".join(name or "the model" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    were, have = ("was", "has its") if len(names) == 1 else ("were", "have their")
    return Note(
        f"{shown} {were} lazy and {have} shapes now, from the inputs of this run. "
        f'To leave a model lazy, run a copy of it: on="copy".'
    )


def attach(problem: Exception, seen: Recording | Profile) -> None:
    """Put the profile of what ran so far on the user's exception, which goes on unchanged."""
    with suppress(Exception):  # an exception may be frozen, and no error of ours may replace it
        problem.flopsight_profile = seen.profile if isinstance(seen, Recording) else seen  # type: ignore[attr-defined]
