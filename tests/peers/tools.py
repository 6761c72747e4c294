"""The tools: how each is installed, and how it is asked for multiply-accumulates and for latency.

Each is called as its own documentation does. What a tool calls FLOPs and means multiply-accumulates, or the other way round, is
brought to multiply-accumulates here.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch

Call = tuple[Any, tuple, dict]
"""A model, its arguments by position and by name."""


def backward(call: Call) -> None:
    """One forward and backward from the sum of everything that came out."""
    model, args, kwargs = call
    total(model(*args, **kwargs)).backward()


def total(value: Any) -> torch.Tensor:
    """The sum of every tensor in an output."""
    if isinstance(value, torch.Tensor):
        return value.float().sum()
    parts = value.values() if isinstance(value, dict) else value
    return sum(total(part) for part in parts)


def forward(call: Call) -> None:
    model, args, kwargs = call
    model(*args, **kwargs)


def _flopsight(call: Call) -> float:
    import flopsight

    return flopsight.count(*call).macs


def _flopsight_training(call: Call) -> float:
    import flopsight

    p = flopsight.count(*call, train=True)
    return p.forward.macs + p.backward.macs + p.recompute.macs


def _flopsight_latency(call: Call) -> float:
    import flopsight

    return flopsight.profile(*call).latency


def _deepspeed_like(module: str) -> Callable[[Call], float]:
    def ask(call: Call) -> float:
        from importlib import import_module

        model, args, kwargs = call
        profile = import_module(module).get_model_profile
        _flops, macs, _params = profile(model, args=list(args), kwargs=kwargs, print_profile=False, as_string=False)
        return macs

    return ask


def _deepspeed_latency(module: str) -> Callable[[Call], float]:
    def ask(call: Call) -> float:
        from importlib import import_module

        profiler = import_module(module).FlopsProfiler(call[0])
        profiler.start_profile()
        forward(call)
        profiler.stop_profile()
        seconds = profiler.get_total_duration()
        profiler.end_profile()
        return seconds

    return ask


def _three_forwards(ask: Callable[[Call], float]) -> Callable[[Call], float]:
    """The rule of the tool's own report: backward is twice the forward."""
    return lambda call: 3 * ask(call)


def _torchinfo(call: Call) -> float:
    import torchinfo

    model, args, kwargs = call
    return torchinfo.summary(model, input_data=list(args) or kwargs, verbose=0, mode=_mode(model)).total_mult_adds


def _mode(model: Any) -> str:
    return "train" if model.training else "eval"


def _fvcore(call: Call) -> float:
    from fvcore.nn import FlopCountAnalysis

    model, args, kwargs = call
    if kwargs:
        raise TypeError("FlopCountAnalysis takes inputs by position only")
    return FlopCountAnalysis(model, args).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def _ptflops(backend: str) -> Callable[[Call], float]:
    def ask(call: Call) -> float:
        from ptflops import get_model_complexity_info

        model, args, kwargs = call
        alone = len(args) == 1 and not kwargs
        given = args[0] if alone else {**dict(zip(signature(model.forward).parameters, args, strict=False)), **kwargs}
        macs, _params = get_model_complexity_info(
            model,
            (1,),
            print_per_layer_stat=False,
            as_strings=False,
            input_constructor=lambda _size: given,
            backend=backend,
        )
        if macs is None:
            raise RuntimeError("no result")
        # of an input by position the pytorch backend takes the first size for the batch, and answers for one sample
        return macs * len(args[0]) if alone and backend == "pytorch" else macs

    return ask


def _calflops(backward: bool) -> Callable[[Call], float]:
    def ask(call: Call) -> float:
        from calflops import calculate_flops

        model, args, kwargs = call
        _flops, macs, _params = calculate_flops(
            model,
            args=list(args),
            kwargs=dict(kwargs),
            include_backPropagation=backward,
            print_results=False,
            output_as_string=False,
        )
        return macs

    return ask


def _thop(call: Call) -> float:
    from thop import profile

    model, args, kwargs = call
    if kwargs:
        raise TypeError("profile takes inputs by position only")
    return profile(model, inputs=args, verbose=False)[0]


def _torchprofile(call: Call) -> float:
    from torchprofile import profile_macs

    model, args, kwargs = call
    return profile_macs(model, args, kwargs or None)


def _torchlens(call: Call) -> Any:
    import torchlens

    model, args, kwargs = call
    return torchlens.trace(model, list(args), kwargs)


def _flop_counter(run: Callable[[Call], None]) -> Callable[[Call], float]:
    def ask(call: Call) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            run(call)
        return counter.get_total_flops() / 2

    return ask


def _torch_profiled(run: Callable[[Call], None], call: Call) -> Any:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as seen:
        run(call)
    return seen.key_averages()


def _torch_profiler(run: Callable[[Call], None]) -> Callable[[Call], float]:
    return lambda call: sum(event.flops for event in _torch_profiled(run, call)) / 2


@dataclass(frozen=True)
class Tool:
    """One tool, and what it can be asked."""

    name: str
    package: str
    """What pip installs, beside torch; empty if it is there with torch."""
    forward: Callable[[Call], float]
    training: Callable[[Call], float] | None = None
    """None: the tool says nothing about backward."""
    rule: str = ""
    """How the tool comes to its figure of a training step, if it does not count one."""
    latency: Callable[[Call], float] | None = None
    beside: tuple[str, ...] = ()
    """What it imports and does not ask pip for."""
    sources: bool = False
    """Whether pip has to build it, which needs torch and the build tools in its environment."""

    @property
    def module(self) -> str:
        """What `import` calls it."""
        names = {"deepspeed": DEEPSPEED, "flops-profiler": CLI99, "ultralytics-thop": "thop"}
        return names.get(self.package, self.package or ("flopsight" if self.name == "flopsight" else "torch"))


DEEPSPEED = "deepspeed.profiling.flops_profiler.profiler"
CLI99 = "flops_profiler.profiler"
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("flopsight", "", _flopsight, _flopsight_training, latency=_flopsight_latency),
        Tool("DeepSpeed", "deepspeed", _deepspeed_like(DEEPSPEED), _three_forwards(_deepspeed_like(DEEPSPEED)),
             "three times the forward", _deepspeed_latency(DEEPSPEED), sources=True),
        Tool("flops-profiler", "flops-profiler", _deepspeed_like(CLI99), _three_forwards(_deepspeed_like(CLI99)),
             "three times the forward", _deepspeed_latency(CLI99)),
        Tool("torchinfo", "torchinfo", _torchinfo),
        Tool("fvcore", "fvcore", _fvcore, sources=True),
        Tool("ptflops", "ptflops", _ptflops("pytorch")),
        Tool("ptflops (aten)", "ptflops", _ptflops("aten")),
        Tool("calflops", "calflops", _calflops(backward=False), _calflops(backward=True), "three times the forward", beside=("transformers==5.22.2",)),
        Tool("thop", "thop", _thop),
        Tool("ultralytics-thop", "ultralytics-thop", _thop),
        Tool("torchprofile", "torchprofile", _torchprofile),
        Tool("torchlens", "torchlens", lambda call: _torchlens(call).total_macs_forward,
             lambda call: _torchlens(call).total_flops / 2, "multiples of each layer's forward"),
        Tool("FlopCounterMode", "", _flop_counter(forward), _flop_counter(backward)),
        Tool("torch.profiler", "", _torch_profiler(forward), _torch_profiler(backward),
             latency=lambda call: _torch_profiled(forward, call).self_cpu_time_total / 1e6),
    )
}  # fmt: skip


@contextlib.contextmanager
def silence():
    """What a tool prints is not part of this."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
