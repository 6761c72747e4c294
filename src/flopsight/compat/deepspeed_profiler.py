"""FlopsProfiler and get_model_profile, as the users of the DeepSpeed profiler call them, with its engine or without."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import finalize

import torch
from torch import nn

from .. import units
from ..capture.model.model_run import make_run
from ..capture.model.wrappers import training_flags
from ..engine.measure import profile_run
from ..engine.run_profile import Ignored
from ..errors import InputError, did_you_mean
from ..files.whole_files import write_text
from ..loop.oneshot import OneShot
from ..render import prepare
from ..render.deepspeed_page import AGGREGATE
from ..results.profile import Profile
from ..results.records import ModuleRow
from ..results.timings import Stat, Timing

REPEATS = 5


def get_model_profile(
    model: nn.Module,
    input_shape: Sequence[int] | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    print_profile: bool = True,
    detailed: bool = True,
    module_depth: int = -1,
    top_modules: int = 1,
    warm_up: int = 1,
    as_string: bool = True,
    output_file: str | Path | None = None,
    ignore_modules: Iterable[Any] | None = None,
    mode: str = "forward",
) -> tuple[Any, Any, Any]:
    """FLOPs, MACs and parameters of one inference: eval mode, no gradients, the model as it was afterwards.

    `model` is called with `args` and `kwargs`, or with one random tensor of `input_shape`; `mode="generate"` calls its
    `generate`. `warm_up` runs come before the timed ones. `as_string` returns texts such as "4.12 GMACs" instead of numbers.
    `print_profile` prints the profile, or writes it to `output_file`: with `detailed` every module down to `module_depth`
    (-1 is the deepest), and the `top_modules` heaviest at each depth. `ignore_modules` are classes, modules or names that are
    left out of the totals.
    """
    if mode not in ("forward", "generate"):
        raise InputError(f"mode must be 'forward' or 'generate', not {mode!r}.")
    method = "__call__" if mode == "forward" else "generate"
    run = make_run(model, args, kwargs, input_shape, method=method)
    if not run.args and not run.kwargs:
        raise InputError("Say what the model runs on: input_shape=(...), args=[...] or kwargs={...}.")
    if mode == "generate" and not callable(getattr(model, "generate", None)):
        raise InputError(f"mode='generate' needs a model with a generate() method; {type(model).__name__} has none.")
    check_page(module_depth, top_modules)
    flags = training_flags(model)
    try:
        with suppress(NotImplementedError):  # an exported program has no modes
            model.eval()
        with torch.no_grad():
            result = profile_run(
                run, warmup=warm_up, repeats=REPEATS, memory=False, ignored=ignoring(model, ignore_modules)
            )
    finally:
        for module, flag in flags:
            module.training = flag
    result = replace(result, step=warm_up)
    if print_profile:
        write(
            result.render("deepspeed", module_depth=module_depth, top_modules=top_modules, detailed=detailed),
            output_file,
        )
    if as_string:
        return (
            units.deepspeed_flops(result.flops),
            units.deepspeed_macs(result.macs),
            units.deepspeed_params(result.params),
        )
    return result.flops, result.macs, result.params


class FlopsProfiler:
    """Profiles the forward of one step in a training loop; examples/training_loop.py is a whole loop.

    `model` is the model that the loop calls. `ds_engine` is the DeepSpeed engine around it, which knows the world and the
    batch. `recompute_fwd_factor` is how much of the forward backward computes again: 1.0 with full checkpointing.
    """

    format = "deepspeed"
    _aggregate = AGGREGATE

    def __init__(self, model: nn.Module, ds_engine: Any = None, recompute_fwd_factor: float = 0.0) -> None:
        self.model = model
        self.ds_engine = ds_engine
        self.recompute_fwd_factor = recompute_fwd_factor
        self._shot = OneShot(model)
        finalize(self, self._shot.stop).atexit = False  # a loop that raised may never have called end_profile()

    @property
    def started(self) -> bool:
        """True while the profiler is counting."""
        return self._shot.running

    @property
    def profile(self) -> Profile:
        """What was seen so far, as a `flopsight.Profile`."""
        seen = replace(self._shot.profile, recompute_fwd_factor=self.recompute_fwd_factor)
        return seen if self.ds_engine is None else with_engine(seen, self.ds_engine)

    def start_profile(self, ignore_list: Iterable[Any] | None = None) -> None:
        """Start profiling; what was seen before is forgotten. `ignore_list` has classes, modules or names that are left out."""
        self._shot.start(ignoring(self.model, ignore_list))

    def stop_profile(self) -> None:
        """Stop profiling. Numbers stay until the next start."""
        self._shot.stop()

    def reset_profile(self) -> None:
        """Forget what was seen, and go on if profiling was on."""
        self._shot.reset()

    def end_profile(self) -> None:
        """Stop profiling and clean up. Nothing is left in the model; numbers stay readable."""
        self._shot.stop()

    def get_total_flops(self, as_string: bool = False) -> Any:
        """Floating-point operations of the forward; as text with its unit if `as_string`."""
        flops = self.profile.flops
        return units.deepspeed_flops(flops) if as_string else flops

    def get_total_macs(self, as_string: bool = False) -> Any:
        """Multiply-accumulates of the forward; as text with its unit if `as_string`."""
        macs = self.profile.macs
        return units.deepspeed_macs(macs) if as_string else macs

    def get_total_duration(self, as_string: bool = False) -> Any:
        """Seconds of the forward; as text with its unit if `as_string`."""
        seconds = self.profile.latency or 0.0
        return units.deepspeed_time(seconds) if as_string else seconds

    def get_total_params(self, as_string: bool = False) -> Any:
        """Parameters of the model, on this rank; as text with its unit if `as_string`."""
        params = self.profile.params
        return units.deepspeed_params(params) if as_string else params

    def print_model_profile(
        self,
        profile_step: int = 1,
        module_depth: int = -1,
        top_modules: int = 1,
        detailed: bool = True,
        output_file: str | Path | None = None,
    ) -> None:
        """Print the summary, the aggregate by depth and, if `detailed`, the module tree, or write them to `output_file`.

        `profile_step` is the step that the head names; `module_depth` and `top_modules` limit the aggregate, -1 is every depth.
        """
        text = self.profile.render(
            self.format,
            profile_step=profile_step,
            module_depth=module_depth,
            top_modules=top_modules,
            detailed=detailed,
        )
        write(text, output_file)

    def print_model_aggregated_profile(self, module_depth: int = -1, top_modules: int = 1) -> None:
        """Print the `top_modules` heaviest modules at every depth, down to `module_depth`; -1 is the whole tree."""
        check_page(module_depth, top_modules)
        depth = None if module_depth < 0 else module_depth
        write("\n".join(self._aggregate.lines(self.profile, depth, top_modules)) + "\n")


def check_page(module_depth: int, top_modules: int) -> None:
    """Refuse a depth or number of modules that cannot be printed, the same for all older profilers."""
    prepare("deepspeed", module_depth=module_depth, top_modules=top_modules)


def write(text: str, output_file: str | Path | None = None) -> None:
    """Print, or write to a file: its folders are made, its old contents replaced."""
    if output_file is None:
        sys.stdout.write(text)
        return
    write_text(output_file, text)


def ignoring(model: nn.Module, modules: Iterable[Any] | None) -> Ignored | None:
    """A predicate over rows for what a user lists, or for a single class, module or name."""
    if modules is None:
        return None
    names: set[str] = set()
    kinds: set[str] = set()
    found = dict(model.named_modules(remove_duplicate=False))
    single = isinstance(modules, str | type | nn.Module) or not isinstance(modules, Iterable)
    for item in [modules] if single else modules:
        if isinstance(item, type):
            names |= {name for name, module in found.items() if isinstance(module, item)}
        elif isinstance(item, nn.Module):
            names |= {name for name, module in found.items() if module is item}
        elif isinstance(item, str):
            classes = {type(module).__name__ for module in found.values()}
            if item not in found and item not in classes:
                raise InputError(
                    f"ignore_modules names {item!r}, which the model does not have.{did_you_mean(item, [*found, *classes])}"
                )
            (names if item in found else kinds).add(item)
        else:
            raise InputError(f"ignore_modules takes module classes, modules and names, not {item!r}.")

    def ignored(row: ModuleRow) -> bool:
        return row.path in names or row.kind in kinds

    return ignored


SHARDS_PARAMETERS = 3
"""From this ZeRO stage on, a rank holds only a part of every parameter."""


def with_engine(seen: Profile, engine: Any, batches: int = 1) -> Profile:
    """Add the engine's world, batch size and timers to a profile of some batches."""
    world = replace(
        seen.world,
        size=engine.world_size,
        rank=engine.global_rank,
        # with sequence parallelism the engine knows only the size of the joint group
        data_parallel=engine.dp_world_size or engine.seq_dp_world_size,
        model_parallel=engine.mp_world_size,
        sharded=engine.zero_optimization_stage() >= SHARDS_PARAMETERS,
    )
    samples = engine.train_micro_batch_size_per_gpu() * batches
    return replace(seen, world=world, batch_size=samples, timing=_timing(engine, seen.timing))


def _timing(engine: Any, timing: Timing) -> Timing:
    """The engine's own timers, in milliseconds, where it keeps them; they hold every batch since its last update."""
    if not engine.wall_clock_breakdown():
        return timing
    timers = engine.timers.get_timers()

    def seconds(name: str, known: Stat | None) -> Stat | None:
        return Stat((timers[name].elapsed(reset=False) / 1000,)) if name in timers else known

    return replace(
        timing,
        forward=seconds("fwd", timing.forward),
        backward=seconds("bwd", timing.backward),
        optimizer=seconds("step", timing.optimizer),
    )
