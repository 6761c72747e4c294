"""profile(), count() and recording(): the passes over a model, in their order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .. import units
from ..analysis.times import with_comm_times, with_op_times, with_times
from ..capture.model.first_writes import kept_if_written
from ..capture.model.model_run import ModelRun, copy_of
from ..capture.model.tensors import stored_bytes
from ..capture.time.device_trace import trace_timeline
from ..capture.time.kineto import NoDeviceTrace
from ..capture.time.latency import measure_latency, traced_host_ops
from ..capture.time.module_marks import forget
from ..distributed.job_options import job_options
from ..distributed.topology import is_engine
from ..errors import CheckFailed, InputError, whole_number
from ..hardware.free_memory import free_memory
from ..progress import COUNTING, by_phases, told
from ..results.caveats import Note
from ..results.profile import Profile
from ..results.timings import TIME_BUDGET
from .counting import Recording, attach, count_run, kept, own_work
from .dry_count import count_dry
from .named_models import run_of
from .run_profile import Ignored, Options

Loss = Callable[[Any], torch.Tensor]
SMALL_COPY = 64 << 20
"""Bytes up to which a copy is made without asking what is free."""


def count(
    model: nn.Module | str,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    train: bool = False,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | str | None = None,
    on: str = "real",
    mesh: Mapping[str, int] | None = None,
    rank: int = 0,
    checkpoint: str | None = None,
    precision: str | None = None,
    accumulate: int | None = None,
    fsdp: Mapping[str, Any] | None = None,
    tp_plan: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Profile:
    """Count one run of a model exactly, without timing it: parameters, MACs, FLOPs, bytes, module by module.

    `model` is called with `args` and `kwargs`; a single tensor is a tuple of one. `input_shape` makes one random tensor of that
    shape instead of `args`, in the model's dtype and on its device. A string is a target as on the command line, such as
    "hf:llama-3.1-8b" or "net.py:Net": it is built, in inference it runs without gradients, and `input_shape` means what
    `-i` means.

    `train` runs a training step: forward, loss, backward, and the step of `optimizer` if one is given. `loss` is a function
    of the model's output; without one it is `output.loss`, else the sum of the scalar outputs, else the sum of the floating outputs.
    Whatever the step changes is put back.

    `on` is where it runs: "real" is the model itself, "copy" a copy of it, "meta" a twin without data, which needs no memory
    and runs no kernel. `strict` raises CheckFailed if an op has no formula.

    `mesh` counts one `rank` of a job on many devices in this process, without data: {"fsdp": 128, "tp": 8}. Inputs are
    those of one rank. The profile has `dry_run` set; `p.whole` is the model without the mesh. How the job trains:
    `checkpoint` is "none", "full" (each block runs again in backward) or "selective" (attention and every second product
    are kept); `precision="bf16"` keeps float32 weights and computes in bfloat16, without it everything has the model's
    dtype; `accumulate` micro-batches come before the optimizer's step; `fsdp` has the switches of FSDP2:
    {"reshard": False, "reduce": "fp32", "offload": True, "wrap": 2}; `tp_plan` says which layers `tp` divides, and how, if
    the model's own plan does not: {"layers.*.up": "colwise"}, or torch's ParallelStyle objects in the place of names.

    >>> import torch, flopsight
    >>> flopsight.count(torch.nn.Linear(8, 2), args=(torch.ones(4, 8),)).macs
    64
    """
    if on not in ("real", "copy", "meta"):
        raise InputError(f"on must be 'real', 'copy' or 'meta', not {on!r}.")
    meta = on == "meta" or mesh is not None
    if rank and mesh is None:
        raise InputError(f"rank={rank} is one of a mesh, and there is none: add one, like mesh={{'fsdp': 8}}.")
    options = job_options(mesh, checkpoint, precision, accumulate, fsdp, tp_plan)
    with run_of(model, args, kwargs, input_shape, train=train, loss=loss, optimizer=optimizer, meta=meta) as run:
        if mesh is not None:
            result = count_dry(run, mesh, rank, options)
        else:
            _warn_of_copies(run, on)
            with run_on(run, on) as chosen:
                # On meta, memory costs nothing to follow; on real tensors only a training step is worth the time it takes.
                result = count_run(chosen, Options(memory=train or meta), meta=meta)
    return checked(result) if strict else result


def profile(
    model: nn.Module | str,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    train: bool = False,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | str | None = None,
    batch_size: int | None = None,
    warmup: int = 3,
    repeats: int = 10,
    latency: bool = True,
    memory: bool = True,
    timeline: bool = False,
    time_budget: float = TIME_BUDGET,
    progress: Callable[[str], None] | bool | None = None,
    on: str = "real",
    strict: bool = False,
) -> Profile:
    """Count a model and time it: what it costs, where, and how long it takes without us.

    `model` is called with `args` and `kwargs`; a single tensor is a tuple of one. `input_shape` makes one random tensor of that
    shape instead of `args`, in the model's dtype and on its device. A string is a target as on the command line, as in `count`.

    `train` runs a training step: forward, loss, backward, and the step of `optimizer` if one is given. `loss` is a function
    of the model's output; without one it is `output.loss`, else the sum of the scalar outputs, else the sum of the floating outputs.
    Whatever the step changes is put back.

    `warmup` runs come before `repeats` timed ones; after `time_budget` seconds no further repeat begins. `latency=False` does
    not time, `memory=False` does not follow memory, `timeline=True` adds one traced run. `batch_size` is the samples of a batch
    for the throughput; without it, the first size of the first input, or what a layer of sequences takes for the batch.
    `progress=True` shows what is being done: a bar in a terminal
    or a notebook, else a line a phase on stderr; a function is called with it.

    `on` is where it runs: "real" is the model itself, "copy" a copy of it. `strict` raises CheckFailed if an op has no
    formula.

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
    with run_of(model, args, kwargs, input_shape, train=train, loss=loss, optimizer=optimizer) as run:
        _warn_of_copies(run, on)
        with run_on(run, on) as chosen, told(progress, by_phases) as say:
            result = profile_run(
                chosen,
                warmup=warmup,
                repeats=repeats,
                latency=latency,
                memory=memory,
                time_budget=time_budget,
                progress=say,
            )
            if timeline:
                result = _with_timeline(result, chosen)
    if batch_size is not None:
        result = replace(result, batch_size=batch_size)
    return checked(result) if strict else result


def recording(model: nn.Module | None = None) -> Recording:
    """Count whatever runs inside a `with`; the profile is ready after it.

    The modules of `model` are the rows; without one, every model that is called inside gets a row with its modules.

    >>> import torch, flopsight
    >>> with flopsight.recording() as r:
    ...     _ = torch.ones(4, 8) @ torch.ones(8, 2)
    >>> r.profile.macs
    64
    """
    return Recording(model)


ENGINE_NOT_TIMED = Note(
    "A step of a DeepSpeed engine cannot be undone, so none was timed: for times, profile steps of the loop, with "
    "flopsight.step_profiler or `flopsight run`."
)


def profile_run(
    run: ModelRun,
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
    progress(COUNTING)
    result = count_run(run, Options(memory=memory, ignored=ignored))
    if not latency or run.device.type == "meta" or run.without_data:
        return result
    if run.train and is_engine(run.model):
        return replace(result, caveats=(*result.caveats, ENGINE_NOT_TIMED))
    with own_work(), kept(run):
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


def _with_timeline(result: Profile, run: ModelRun) -> Profile:
    """Trace one more run; if that fails, a caveat says why and the rest of the profile stays."""
    try:
        with own_work(), kept(run):
            return replace(result, timeline=trace_timeline(run))
    except NoDeviceTrace as problem:
        return replace(result, caveats=(*result.caveats, Note(f"No timeline was taken: {problem}.")))
    except Exception as problem:
        attach(problem, result)
        raise


@contextmanager
def run_on(run: ModelRun, on: str) -> Iterator[ModelRun]:
    """The run itself, or one on a copy; a loss may still read the original, so that its gradients are kept."""
    try:
        if on != "copy":
            with kept_if_written(run):  # what the counted run writes, the timed ones write again
                yield run
            return
        with kept(replace(run, optimizer=None)):
            yield copy_of(run)
    except Exception as problem:
        if len(run.args) > 1 and all(type(size) is int for size in run.args):
            problem.add_note(f"flopsight: if {run.args} is the shape of an input, write input_shape={run.args}.")
        raise


def _warn_of_copies(run: ModelRun, on: str) -> None:
    """Say beforehand that the copies we make, to run on or to put the model back, may not fit into memory."""
    if on == "meta" or run.device.type == "meta" or (run.optimizer is None and on != "copy"):
        return
    copied = sum(stored_bytes(tensor) for tensor in [*run.model.parameters(), *run.model.buffers()])
    free = free_memory(str(run.device)) if copied > SMALL_COPY else None
    if free is not None and copied > free:
        warnings.warn(
            f"flopsight is about to copy {units.size(copied)} of parameters and buffers, and {units.size(free)} is free on "
            f"{run.device}. flopsight.count(..., on='meta'), or --meta, needs no memory.",
            stacklevel=3,
        )


def checked(result: Profile) -> Profile:
    """Refuse a profile with unknown ops."""
    if result.coverage.unknown:
        names = "; ".join(f"{op}: {miss.why}" for op, miss in result.coverage.unknown.items())
        raise CheckFailed(f"{len(result.coverage.unknown)} ops are not counted ({names}).")
    return result
