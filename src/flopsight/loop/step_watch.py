"""One step of a loop, watched as its role in the window asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress

import torch

from ..capture.model.model_run import ModelRun
from ..capture.model.sites import Sites
from ..capture.time.clock import Clock, Mark
from ..capture.time.device_trace import DeviceTracing
from ..capture.time.kineto import NoDeviceTrace
from ..capture.time.loop_marks import PhaseMarks
from ..capture.time.module_marks import Timer
from ..engine.counting import Recording
from ..engine.run_profile import Options
from .schedule import Role


class StepWatch:
    """Marks the phases of a step; a counted one has a recording too, a timed one a timer, a traced one a tracer."""

    def __init__(
        self,
        role: Role,
        sites: Sites,
        clock: Clock,
        optimizers: list[torch.optim.Optimizer],
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        """`on_failure` is called when a model or a backward raises."""
        self.role = role
        self.marks = PhaseMarks(sites, clock, optimizers, on_failure)
        self.recording: Recording | None = None
        self.timer: Timer | None = None
        self.tracing: DeviceTracing | None = None
        self.began: Mark = None
        self._sites = sites
        self._clock = clock
        self._stack = ExitStack()

    def begin(self, device: torch.device, *, first: bool, split: bool) -> None:
        """Attach what the role needs; `first` is the very first step of the loop, which finds no gradients.

        Marks around every module slow a step, so only a `split` one has them.
        """
        match self.role:
            case Role.COUNT:
                watched = Options(memory=True, in_loop=not first, optimizers=self.marks.optimizers)
                self.recording = Recording(self._sites, watched)
                self._stack.enter_context(self.recording)
            case Role.TIME | Role.TRACE:
                if self.role is Role.TRACE and not self._trace(device):
                    self.role = Role.TIME
                if split and device.type == "cpu":  # on a device the host's marks would say when work is handed over
                    self.timer = Timer(self._sites, self._clock.now)
                    self._stack.enter_context(self.timer.running())
        self._stack.enter_context(self.marks.running())
        self.began = self._clock.mark()

    def _trace(self, device: torch.device) -> bool:
        """Start the device's tracer, whose kernels give the time of every module, but not of the step."""
        if device.type == "cpu":
            return False
        tracing = DeviceTracing(self._sites, device)
        try:
            self._stack.enter_context(tracing.running())
        except NoDeviceTrace:
            return False
        self.tracing = tracing
        return True

    def end(self) -> None:
        """Label gradients and optimizer state in the recording, while they are still alive, and detach."""
        if self.recording is not None:
            self.recording.label(ModelRun(self._sites.whole))
        self.detach()

    def detach(self) -> None:
        """Detach everything at once."""
        with suppress(NoDeviceTrace):  # then the step has no kernel times, and the profile says so
            self._stack.close()
