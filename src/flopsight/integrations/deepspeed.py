"""Importing this file makes DeepSpeed's engine use our profiler if its configuration enables one.

>>> import flopsight.integrations.deepspeed  # doctest: +SKIP
>>> engine, *_ = deepspeed.initialize(model=model, config={"flops_profiler": {"enabled": True}, ...})  # doctest: +SKIP
"""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from weakref import ref

import torch
from deepspeed.runtime import engine as _runtime
from torch import nn

from ..analysis.phase_filter import only
from ..compat.deepspeed_profiler import FlopsProfiler, with_engine
from ..config import BLOCK, parse_phases
from ..errors import StateError
from ..loop.monitor.sinks import as_list
from ..results.profile import Profile
from ..results.records import PHASES
from ..results.run import Run
from .watched_training import MonitoredTraining

_DEEPSPEEDS_OWN = _runtime.FlopsProfiler


class EngineProfiler(FlopsProfiler):
    """Our profiler, as an engine drives it: it profiles every forward of one optimizer step, on rank 0, and prints once.

    The engine starts its profiler in a hook of the model, when the model's call has already begun. So we listen to the
    engine's own call, one hook before it and one after, and take no notice of that start.
    """

    def __init__(self, model: nn.Module, ds_engine: Any = None, recompute_fwd_factor: float = 0.0) -> None:
        super().__init__(model, ds_engine, recompute_fwd_factor)
        block = ds_engine._config._param_dict.get(BLOCK, {})
        self._phases = parse_phases(block.get("phases", PHASES), f"{BLOCK}: phases")
        self._begun = False
        self._in_engine = False
        self._printed: Profile | None = None
        self._hooks: list[Any] = []
        if ds_engine.global_rank == 0:
            self._hooks = [
                ds_engine.register_forward_pre_hook(self._before),
                ds_engine.register_forward_hook(self._after, always_call=True),
            ]

    @property
    def profile(self) -> Profile:
        """What was seen of the step so far; fixed once the step is printed, because the engine then resets its timers."""
        if self._printed is not None:
            return self._printed
        engine = self.ds_engine
        seen = replace(
            self._shot.profile,
            recompute_fwd_factor=self.recompute_fwd_factor,
            step=engine.flops_profiler_profile_step(),
        )
        whole = with_engine(seen, engine, batches=engine.gradient_accumulation_steps())
        return only(whole, self._phases)

    def _before(self, engine: Any, _args: Any) -> None:
        self._in_engine = True
        # an evaluation between two steps is not part of the one to come
        if engine.global_steps != engine.flops_profiler_profile_step() or not torch.is_grad_enabled():
            return
        if self._begun:
            self._shot.resume()
        else:
            self._shot.start()
            self._begun = True

    def _after(self, _engine: Any, _args: Any, _output: Any) -> None:
        self._in_engine = False
        self._shot.stop()

    def start_profile(self, ignore_list: Iterable[Any] | None = None) -> None:
        """Begin if the model is called past its engine; else the engine's call has begun."""
        if not self._in_engine and not self._begun:
            super().start_profile(ignore_list)

    def stop_profile(self) -> None:
        """Stop if the model is called past its engine; else the end of the engine's call will."""
        if not self._in_engine:
            super().stop_profile()

    def print_model_profile(self, profile_step: int = 1, *args: Any, **kwargs: Any) -> None:
        """Print when the step is whole, under its own number: the engine has counted on by now."""
        if not self.ds_engine.is_gradient_accumulation_boundary():
            return
        try:
            self._printed = self.profile
        except StateError as problem:
            warnings.warn(f"{problem} The engine did not run the model in this step.", stacklevel=2)
            return
        step = self.ds_engine.flops_profiler_profile_step()
        super().print_model_profile(step, *args, **kwargs)

    def end_profile(self) -> None:
        """Clean up when the step is whole; an engine that has been profiled is as it was without us."""
        if self.ds_engine.is_gradient_accumulation_boundary():
            super().end_profile()
            while self._hooks:
                self._hooks.pop().remove()


class EngineMonitor:
    """Watches every step of an engine whose `flops_profiler` block has `"monitor": true`, until the process ends.

    It switches DeepSpeed's own profiler off, which would wait for the device in every step.
    """

    def __init__(self, engine: Any, block: Mapping[str, Any]) -> None:
        self._engine = ref(engine)
        events = [self._write] if engine.monitor.enabled else []
        self._training = MonitoredTraining(block.get("every", 10), [*as_list(block.get("to")), *events])
        self._hook = engine.register_forward_pre_hook(self._begin)
        engine._config.flops_profiler_config.enabled = False

    @property
    def run(self) -> Run | None:
        """The run so far; None before the engine was called."""
        return self._training.run

    def end(self) -> None:
        """Stop watching, and hand over the rest."""
        self._hook.remove()
        atexit.unregister(self.end)
        self._training.end()

    def _begin(self, engine: Any, _args: Any) -> None:
        self._hook.remove()
        atexit.register(self.end)
        self._training.begin(engine, main=engine.global_rank == 0)

    def _write(self, figures: dict[str, float]) -> None:
        engine = self._engine()
        if engine is not None:  # DeepSpeed's own trackers count samples, not steps
            engine.monitor.write_events([(name, value, engine.global_samples) for name, value in figures.items()])


def make_profiler(
    model: nn.Module, ds_engine: Any = None, recompute_fwd_factor: float = 0.0
) -> EngineProfiler | EngineMonitor:
    """What an engine gets for its profiler, by its configuration."""
    block = ds_engine._config._param_dict.get(BLOCK, {})
    if block.get("monitor"):
        return EngineMonitor(ds_engine, block)
    return EngineProfiler(model, ds_engine, recompute_fwd_factor)


def install() -> None:
    """Let every engine made from here on use our profiler; importing this file does so."""
    _runtime.FlopsProfiler = make_profiler


def uninstall() -> None:
    """Give the engines made from here on DeepSpeed's own profiler back."""
    _runtime.FlopsProfiler = _DEEPSPEEDS_OWN


install()
