"""The profile of one watched run: a tape of what was seen, priced, in the rows of the model, with where it ran."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch

from .. import __version__
from ..analysis.build import Observed, build
from ..capture.count.footprint import Footprint
from ..capture.count.tape import Tape
from ..capture.hooks.garbage import rarer_collections
from ..capture.hooks.optimizer_steps import with_inner
from ..capture.model.model_run import ModelRun, batch_size_of, tokens_of
from ..capture.model.module_rows import module_rows, scripted_rows
from ..capture.model.sites import Sites
from ..capture.model.tensors import held_bytes
from ..distributed.topology import job_name, mesh_dimensions
from ..hardware.detect import cpu_name, detect
from ..hardware.known_ceilings import ceilings_of
from ..results.caveats import Caveat, DirectForward, OtherThreads, Scripted
from ..results.environment import Environment
from ..results.profile import Profile
from ..results.records import BACKWARD, ModuleRow
from .parallel_figures import in_its_world

Ignored = Callable[[ModuleRow], bool]


@dataclass(frozen=True)
class Options:
    """How a run is watched."""

    run: ModelRun | None = None
    memory: bool = False
    ignored: Ignored | None = None
    target: str | None = None
    """The device that a run on meta stands for; None if the run is real."""
    casts: str = ""
    """The device whose casts autocast makes, if that is not the run's own; the CPU's autocast switches them on."""
    in_loop: bool = False
    """Whether what runs is a step of a loop, after another step."""
    whole: bool = True
    """Whether the model without its parallel wrappers is counted too."""
    offloaded: bool = False
    """Whether parameters, gradients and optimizer state live in the memory of the host, apart from the peak."""
    optimizers: Sequence[torch.optim.Optimizer] = ()
    """Those that step in the loop, beside the run's own; the list may grow while the loop runs."""


DEFAULTS = Options()


@rarer_collections()
def build_profile(tape: Tape, sites: Sites, options: Options) -> Profile:
    """The profile of what a tape holds, in the rows of `sites`."""
    run = options.run
    memory = tape.live.footprint() if tape.live is not None else None
    observed = _observed(tape, sites, options, memory)
    root, coverage, caveats = build(observed)
    found = detect(run.device) if run is not None and run.device.type != "meta" else None
    result = Profile(
        root=root,
        coverage=coverage,
        caveats=(*caveats, *tape.caveats, *_doubts(tape, sites)),
        environment=environment(run),
        trained=any(record.phase == BACKWARD for record in observed.records),
        peak_bytes=memory.peak if memory else None,
        at_peak=memory.kinds if memory else {},
        memory_curve=memory.curve if memory else None,
        data_flow=tape.data.flows.columns() if tape.data is not None else None,
        peak_flops=found.peak_flops() if found else {},
        ceilings=ceilings_of(found, torch.get_num_threads()) if found else None,
        padding=tape.padding,
    )
    result = in_its_world(result, tape, sites)
    if run is not None:
        result = replace(result, batch_size=batch_size_of(run), tokens=tokens_of(run))
    return result


def _observed(tape: Tape, sites: Sites, options: Options, memory: Footprint | None) -> Observed:
    """What the tape holds, in the rows of the model."""
    unread = tape.unread(sites.roots.values())
    return Observed(
        rows=module_rows(sites, _state_bytes(options), {site.path for site in tape.experts}, unread),
        records=tuple(tape.records()),
        calls=tuple(tape.module_calls()),
        views=tape.views(),
        saved_bytes=tape.saved_bytes(),
        allocated_bytes={site.path: size for site, size in tape.live.grown.items()} if tape.live else {},
        peak_bytes={site.path: size for site, size in memory.rows.items()} if memory else {},
        dims=mesh_dimensions(sites.roots.values()),
        ignored=options.ignored or (lambda _row: False),
    )


def _doubts(tape: Tape, sites: Sites) -> Iterator[Caveat]:
    """What ran where the counter cannot look, or only partly."""
    if tape.direct_forwards:
        yield DirectForward(tuple(sorted(tape.direct_forwards)))
    if tape.missed:
        yield OtherThreads(tape.missed)
    scripted = scripted_rows(sites)
    if scripted:
        yield Scripted(scripted)


def _optimizers(options: Options) -> list[torch.optim.Optimizer]:
    own = options.run.optimizer if options.run is not None else None
    outer = [*([] if own is None else [own]), *options.optimizers]
    return list(dict.fromkeys(part for optimizer in outer for part in with_inner(optimizer)))


def state_tensors(options: Options) -> list[torch.Tensor]:
    """The tensors in the state of the optimizers."""
    states = [state for optimizer in _optimizers(options) for state in optimizer.state.values()]
    return [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]


def _state_bytes(options: Options) -> dict[int, int]:
    """What the optimizers keep for each parameter."""
    return {
        id(parameter): sum(held_bytes(value) for value in state.values() if isinstance(value, torch.Tensor))
        for optimizer in _optimizers(options)
        for parameter, state in optimizer.state.items()
    }


def _device_name(device: torch.device) -> str:
    """What the device calls itself; a run on meta has no device."""
    if device.type == "meta":
        return ""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def environment(run: ModelRun | None) -> Environment:
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
        device_name=_device_name(device),
        dtype=dtype,
        threads=torch.get_num_threads(),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        job=job_name(),
    )
