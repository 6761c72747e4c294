"""One watched run and the profile that comes of it: shared by profile(), count(), recording() and the step window."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import torch
from torch import nn

from . import __version__
from .analysis.build import Observed, build
from .capture.dispatch import Counter
from .capture.inputs import Run, batch_size_of, tokens_of
from .capture.memory import Live, Saved
from .capture.rows import module_rows
from .capture.state import kept_buffers, kept_rng, kept_training_state
from .caveats import DirectForward
from .errors import InputError, StateError
from .formulas import known
from .records import ModuleRow
from .tree import Environment, Profile

Ignored = Callable[[ModuleRow], bool]


@contextmanager
def kept(run: Run) -> Iterator[None]:
    """Whatever a run changes is put back, also when it raises."""
    with ExitStack() as stack:
        stack.enter_context(kept_rng())
        stack.enter_context(kept_buffers(run.model))
        if run.train:
            stack.enter_context(kept_training_state(run.model, run.optimizer))
        yield


def plain_model(model: nn.Module) -> nn.Module:
    """The model itself, without the wrapper that torch.compile puts around it."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, nn.Module) else model


class Recording:
    """What ran inside a `with`; `profile` is ready afterwards, also when the block raised."""

    def __init__(
        self, model: nn.Module | None = None, *, run: Run | None = None, memory: bool = False, ignored: Ignored | None = None
    ) -> None:
        if model is not None and not isinstance(model, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self._model = None if model is None else plain_model(model)
        self._run = run
        self._memory = memory
        self._ignored = ignored
        self._counter: Counter | None = None
        self._made: tuple[Profile, Observed] | None = None

    def __enter__(self) -> Recording:
        """Begin to count."""
        if self._counter is not None:
            raise StateError("This recording has run already; make a new one: with flopsight.recording() as r: ...")
        self._counter = self._make_counter()
        self._counter.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        """Stop counting."""
        assert self._counter is not None
        self._counter.__exit__(*problem)

    def _make_counter(self) -> Counter:
        known_tensors = [] if self._model is None else [*self._model.parameters(), *self._model.buffers()]
        known_tensors += self._run.tensors if self._run is not None else []
        live = Live(known_tensors) if self._memory else None
        return Counter(self._model, known, Saved(known_tensors), live)

    @property
    def profile(self) -> Profile:
        """What ran, as a profile."""
        return self._finished()[0]

    @property
    def observed(self) -> Observed:
        """What the profile was built from."""
        return self._finished()[1]

    def _finished(self) -> tuple[Profile, Observed]:
        if self._counter is None:
            raise StateError("Nothing was recorded yet: run the model inside `with flopsight.recording() as r:` first.")
        if self._made is None:
            self._made = finished(self._counter, self._run, self._ignored)
        return self._made


def finished(counter: Counter, run: Run | None, ignored: Ignored | None = None) -> tuple[Profile, Observed]:
    """The profile of what a counter saw."""
    saved = counter.saved.bytes if counter.saved is not None else {}
    seen = Observed(
        rows=module_rows(counter.sites, _state_bytes(run)),
        records=tuple(counter.records()),
        calls=tuple(counter.module_calls()),
        views=counter.views(),
        saved_bytes={site.path: size for site, size in saved.items()},
        allocated_bytes={site.path: size for site, size in counter.grown.items()},
    )
    if ignored is not None:
        seen.ignored = ignored
    root, coverage, caveats = build(seen)
    direct = (DirectForward(tuple(sorted(counter.direct_forwards))),) if counter.direct_forwards else ()
    result = Profile(
        root=root,
        coverage=coverage,
        caveats=(*caveats, *direct, *counter.caveats),
        environment=environment(run),
        trained=any(record.phase == "backward" for record in seen.records),
    )
    if run is not None:
        result = replace(result, batch_size=batch_size_of(run), tokens=tokens_of(run))
    return result, seen


def counted(
    run: Run, *, meta: bool = False, memory: bool = False, ignored: Ignored | None = None
) -> tuple[Profile, Observed]:
    """One run under the counter, the model as it was afterwards; with what was seen, for a second build."""
    recording = Recording(run.model, run=run, memory=memory, ignored=ignored)
    with kept(run):
        try:
            with recording:
                run.step()
        except Exception as problem:
            problem.flopsight_profile = recording.profile  # type: ignore[attr-defined]
            raise
        return recording.profile, recording.observed


def _state_bytes(run: Run | None) -> dict[int, int]:
    """What an optimizer keeps for each parameter."""
    if run is None or run.optimizer is None:
        return {}
    return {
        id(parameter): sum(value.nbytes for value in state.values() if isinstance(value, torch.Tensor))
        for parameter, state in run.optimizer.state.items()
    }


def environment(run: Run | None) -> Environment:
    """Where and with what this runs."""
    device = run.device if run is not None else torch.device("cpu")
    dtype = ""
    if run is not None:
        floating = [p.dtype for p in run.model.parameters() if p.is_floating_point()]
        dtype = str(max(set(floating), key=floating.count)).removeprefix("torch.") if floating else ""
    return Environment(
        flopsight=__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        device=device.type,
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        dtype=dtype,
        threads=torch.get_num_threads(),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )
