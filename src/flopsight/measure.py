"""profile(), count() and recording(): the passes over a model, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .analysis.comm_times import with_comm_times
from .analysis.op_times import with_op_times
from .analysis.times import with_times
from .capture.model.copies import copy_of
from .capture.model.run import Run, make_run
from .capture.time.kineto import NoDeviceTrace
from .capture.time.latency import measure_latency, traced_host_ops
from .capture.time.module_marks import forget
from .capture.time.timeline import trace_timeline
from .caveats import Note
from .counting import Ignored, Options, Recording, attach, count_run, kept
from .distributed.topology import is_engine
from .errors import CheckFailed, InputError, whole_number
from .timings import TIME_BUDGET
from .tree import Profile

Loss = Callable[[Any], torch.Tensor]


def count(
    model: nn.Module,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    train: bool = False,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    on: str = "real",
    strict: bool = False,
) -> Profile:
    """Count one run of a model exactly, without timing it; `on="meta"` runs no kernel, `on="copy"` not the model itself.

    >>> import torch, flopsight
    >>> flopsight.count(torch.nn.Linear(8, 2), args=(torch.ones(4, 8),)).macs
    64
    """
    if on not in ("real", "copy", "meta"):
        raise InputError(f"on must be 'real', 'copy' or 'meta', not {on!r}.")
    run = make_run(model, args, kwargs, input_shape, train=train, loss=loss, optimizer=optimizer)
    with run_on(run, on) as run:
        # On meta, memory costs nothing to follow; on real tensors only a training step is worth the time it takes.
        result = count_run(run, Options(memory=train or on == "meta"), meta=on == "meta")
    return checked(result) if strict else result


def profile(
    model: nn.Module,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    train: bool = False,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    batch_size: int | None = None,
    warmup: int = 3,
    repeats: int = 10,
    latency: bool = True,
    memory: bool = True,
    timeline: bool = False,
    time_budget: float = TIME_BUDGET,
    progress: Callable[[str], None] | None = None,
    on: str = "real",
    strict: bool = False,
) -> Profile:
    """Count a model and time it: what it costs, where, and how long it takes without us; `on="copy"` runs a copy of it.

    After `time_budget` seconds of timed runs no further repeat begins; `progress` is called with what is being done.

    >>> import torch, flopsight
    >>> flopsight.profile(torch.nn.Linear(8, 2), args=(torch.ones(4, 8),), repeats=2).root.calls
    1
    """
    if batch_size is not None:
        whole_number("batch_size", batch_size, 1)
    if on not in ("real", "copy"):
        raise InputError(
            f"on must be 'real' or 'copy', not {on!r}. Without kernels there is no time: flopsight.count(..., on='meta')."
        )
    run = make_run(model, args, kwargs, input_shape, train=train, loss=loss, optimizer=optimizer)
    with run_on(run, on) as run:
        result = profile_run(
            run,
            warmup=warmup,
            repeats=repeats,
            latency=latency,
            memory=memory,
            time_budget=time_budget,
            progress=progress,
        )
        if timeline:
            result = _with_timeline(result, run)
    if batch_size is not None:
        result = replace(result, batch_size=batch_size)
    return checked(result) if strict else result


def recording(model: nn.Module | None = None) -> Recording:
    """Count whatever runs inside a `with`; the profile is ready after it.

    >>> import torch, flopsight
    >>> with flopsight.recording() as r:
    ...     _ = torch.ones(4, 8) @ torch.ones(8, 2)
    >>> r.profile.macs
    64
    """
    return Recording(model)


def profile_run(
    run: Run,
    *,
    warmup: int = 3,
    repeats: int = 10,
    latency: bool = True,
    memory: bool = True,
    time_budget: float = TIME_BUDGET,
    progress: Callable[[str], None] | None = None,
    ignored: Ignored | None = None,
) -> Profile:
    """All passes over a run: the count, which warms up, more warm-up, then plain and timed runs in turn."""
    whole_number("warmup", warmup, 0)
    whole_number("repeats", repeats, 1)
    if isinstance(time_budget, bool) or not isinstance(time_budget, int | float) or not time_budget > 0:
        raise InputError(f"time_budget must be a number of seconds above 0, not {time_budget!r}.")
    progress = progress or forget
    progress("counting")
    result = count_run(run, Options(memory=memory, ignored=ignored))
    if not latency or run.device.type == "meta" or (run.train and is_engine(run.model)):
        return result
    with kept(run):
        try:
            # The counted run has warmed the model up; a compiled one it ran as plain Python.
            rest = max(1, warmup) if run.compiled else max(0, warmup - 1)
            timed = measure_latency(run, warmup=rest, repeats=repeats, budget=time_budget, progress=progress)
            ops = timed.ops or traced_host_ops(run, progress)
        except Exception as problem:
            attach(problem, result)
            raise
    root = with_times(result.root, timed.forward, timed.backward, host=timed.host, streams=timed.streams)
    root = with_comm_times(with_op_times(root, ops), timed.collectives)
    return replace(result, root=root, timing=timed.timing, caveats=(*result.caveats, *timed.caveats))


def _with_timeline(result: Profile, run: Run) -> Profile:
    """Trace one more run; where that fails, a caveat says why and the rest of the profile stays."""
    try:
        with kept(run):
            return replace(result, timeline=trace_timeline(run))
    except NoDeviceTrace as problem:
        return replace(result, caveats=(*result.caveats, Note(f"No timeline was taken: {problem}.")))
    except Exception as problem:
        attach(problem, result)
        raise


@contextmanager
def run_on(run: Run, on: str) -> Iterator[Run]:
    """The run itself, or one on a copy; a loss may still read the original, so that its gradients are kept."""
    if on != "copy":
        yield run
        return
    with kept(replace(run, optimizer=None)):
        yield copy_of(run)


def checked(result: Profile) -> Profile:
    """Refuse a profile with unknown ops."""
    if result.coverage.unknown:
        names = "; ".join(f"{op}: {miss.why}" for op, miss in result.coverage.unknown.items())
        raise CheckFailed(f"{len(result.coverage.unknown)} ops are not counted ({names}).")
    return result
