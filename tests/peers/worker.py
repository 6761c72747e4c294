"""Asks one tool everything, in the tool's own environment: `python -m peers.worker NAME`. Writes JSON to stdout.

Every question has a process of its own, forked when torch and the tool are imported: what a tool leaves behind in torch,
and what kills it, stays with that question.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch
from peers import cases, tools
from peers.timed import TIMED, Timed

TURNS = 3
FORWARDS = 6
STATUS = Path("/proc/self/status")


def alone(ask: Callable[[], object]) -> object:
    """The answer of a function in a process of its own, or what went wrong."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            with tools.silence():
                said = ask()
        except BaseException as problem:
            said = f"{type(problem).__name__}: {str(problem).strip().splitlines()[0] if str(problem).strip() else ''}"
        with os.fdopen(write, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, code = os.waitpid(child, 0)
    return json.loads(text) if text else f"the process ended with status {code}"


def answer(name: str, ask: Callable[[tools.Call], float] | None) -> object:
    """What a tool says of a case, in multiply-accumulates."""
    if ask is None:
        return None
    case = cases.CASES[name]
    torch.manual_seed(0)
    with no_random_weights():
        model = case.build().train(not case.inference)
    with torch.set_grad_enabled(not case.inference):
        if any(isinstance(part, torch.nn.modules.lazy.LazyModuleMixin) for part in model.modules()):
            model(*case.args())  # a lazy layer gets its shape; several tools cannot see it do so
        return float(ask((model, case.args(), dict(case.kwargs()))))


@contextlib.contextmanager
def no_random_weights():
    """Leave weights as they are allocated: drawing those of the large models takes longer than counting them."""
    names = ("normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_")
    kept = {name: getattr(torch.nn.init, name) for name in names}
    for name in names:
        setattr(torch.nn.init, name, lambda tensor, *_args, **_kwargs: tensor)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(torch.nn.init, name, function)


def peak() -> int:
    """Bytes that the process had at most since `forget_peak`."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def timing(tool: tools.Tool, timed: Timed) -> dict[str, float | None]:
    """Times of a tool as multiples of plain forwards in the same process, in turns, and its memory beyond a forward's.

    What a tool takes is the processor's time, so that others on the machine do not count; a latency is the wall's, as shown.
    """
    call = timed.call()
    with torch.no_grad():
        tools.forward(call)
        forget_peak()
        tools.forward(call)
        plain_peak = peak()
        forget_peak()
        first = taken(lambda: tool.forward(call))
        more = peak() - plain_peak
        plain, warm, shown = [], [], []
        for turn in range(TURNS):
            plain.append(taken(lambda: tools.forward(call)))
            warm.append(taken(lambda: tool.forward(call)))
            if tool.latency and turn % 2 == 0:
                before = in_a_row(call)
                latency = tool.latency(call)
                shown.append(2 * latency / (before + in_a_row(call)))
    true = median(plain)
    return {
        "plain_ms": true * 1e3,
        "first": first / true,
        "warm": median(warm) / true,
        "latency": median(shown) if shown else None,
        "memory_mb": max(0, more) / 1e6,
    }


def taken(run: Callable[[], object]) -> float:
    """Seconds of the processor."""
    gc.collect()
    start = process_time()
    run()
    return process_time() - start


def in_a_row(call: tools.Call) -> float:
    """Wall seconds of a forward among others, as in a loop; the first warms the caches up again."""
    times = []
    for _ in range(FORWARDS):
        start = perf_counter()
        tools.forward(call)
        times.append(perf_counter() - start)
    return median(times[1:])


def versions(tool: tools.Tool) -> dict[str, str]:
    """The tool's version and torch's."""
    try:
        own = version(tool.package or "torch")
    except PackageNotFoundError:
        own = "unknown"
    if tool.name == "flopsight":
        import flopsight

        own = flopsight.__version__
    return {"tool": own, "torch": torch.__version__, "python": sys.version.split()[0]}


def main(name: str) -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    tool = tools.TOOLS[name]
    found = {
        "versions": versions(tool),
        "times": {each: alone(lambda each=each: timing(tool, TIMED[each])) for each in TIMED},
    }
    prepare(tool)
    found["forward"] = {case: alone(lambda case=case: answer(case, tool.forward)) for case in cases.FORWARD}
    found["training"] = {case: alone(lambda case=case: answer(case, tool.training)) for case in cases.TRAINING}
    json.dump(found, sys.stdout)


def prepare(tool: tools.Tool) -> None:
    """Import the tool before the questions are forked; a package that cannot be imported says so at each of them.

    flopsight and torch's own counters import more at their first question, and leave nothing behind: they are asked one here.
    """
    with contextlib.suppress(ImportError):
        import_module(tool.module)
    if not tool.package:
        answer("Linear", tool.forward)
        answer("training: three Linear layers", tool.training)


if __name__ == "__main__":
    main(sys.argv[1])
