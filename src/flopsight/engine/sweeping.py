"""sweep(): one model at many sizes, each counted or timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from torch import nn

from ..capture.model.restore import kept_rng
from ..capture.model.tensors import tensors_in
from ..errors import FlopsightError, InputError
from ..progress import Told, by_points, told
from ..results.sweep import AxisValue, Point, Sweep
from ..targets.address import parse_address
from ..targets.axes import BATCH, DTYPE, SEQ, changed_address, check_sweep, sized_inputs
from ..targets.blueprint import Call, Sizes
from ..targets.code import imports_put_back
from ..targets.early_checks import check_target
from ..targets.inputs import described, parse_model_dtype
from ..targets.loading import Target, build_target, call_with, make_blueprint
from ..targets.users import TargetRaised, users_code
from .decoding import generate_target
from .target_profile import profile_target


@imports_put_back()
@kept_rng()
def sweep(
    target: str | Callable[..., Any],
    axes: Mapping[str, Sequence[Any]],
    *,
    inputs: str | Sequence[str] = (),
    train: bool = False,
    meta: bool = True,
    device: str | None = None,
    dtype: str | None = None,
    optimizer: str | None = None,
    mesh: Mapping[str, int] | None = None,
    generate: int | None = None,
    on: str | None = None,
    progress: Told | bool | None = None,
    **timing: Any,
) -> Sweep:
    """Count a model at every combination of values.

    `target` is a target as the command line takes it, or a function that is called with the values by name and returns a
    model and its inputs: `model, args` or `model, kwargs` or `model, args, kwargs`.

    `axes` maps names to values. `batch` and `seq` are the sizes of the inputs, `dtype` is the model's, `layers` its number
    of layers, and every other name is a key of the configuration or an argument of the class.

    `inputs` says shapes as `-i` does, with the axes in braces: `"{batch}x3x224x224"`. `train` runs a training step, with
    the step of `optimizer` ("adamw"); `dtype` is the model's; `mesh` counts one rank of a job, as in `count`; `generate` counts
    a prompt and so many tokens after it, as in `generation`. `on` names a device: the points then say whether they fit its
    memory, and their least times.

    `meta=False` runs and times real models, on `device`; `timing` is then what `profile()` takes: repeats, warmup,
    time_budget. `progress=True` shows a bar; a function is called with the points done, all points, and the seconds left.

    >>> import torch, flopsight
    >>> s = flopsight.sweep(lambda width: (torch.nn.Linear(8, width), torch.ones(4, 8)), {"width": [2, 4]})
    >>> [row["macs"] for row in s.rows]
    [64, 128]
    """
    checked = {name: tuple(values) for name, values in axes.items()}
    if not checked or not all(checked.values()):
        raise InputError("A sweep needs at least one axis with values: batch=1,8 or {'batch': [1, 8]}.")
    number = parse_model_dtype(dtype) if dtype else None
    meta = meta or mesh is not None
    check_sweep(checked, train=train, dtype=dtype, optimizer=optimizer, mesh=mesh, generate=generate, on=on)
    how = _How(meta, train, optimizer, mesh, generate, "cpu" if on is None else "meta", timing)
    source = _Named(target, inputs, how, device, number) if isinstance(target, str) else _Made(target)
    points: list[Point] = []
    combinations = [dict(zip(checked, values, strict=True)) for values in product(*checked.values())]
    begun = time.monotonic()
    problem: Exception | None = None
    with told(progress, partial(by_points, timed=not meta)) as tell:
        for done, values in enumerate(combinations):
            if tell is not None:
                passed = time.monotonic() - begun
                tell(done, len(combinations), passed / done * (len(combinations) - done) if done else None)
            try:
                points.append(_measured(_plain(values), source(values), how))
            except (FlopsightError, TargetRaised, RuntimeError) as found:
                problem = problem or found
                points.append(Point(_plain(values), error=" ".join(str(found).split())))
    if problem is not None and not any(point.counted for point in points):
        raise problem
    return Sweep({name: tuple(map(_as_text, values)) for name, values in checked.items()}, tuple(points), on or "")


def _plain(values: Mapping[str, Any]) -> dict[str, AxisValue]:
    return {name: _as_text(value) for name, value in values.items()}


def _as_text(value: Any) -> AxisValue:
    """A value of an axis as a sweep keeps it: numbers and texts as they are, anything else as its text."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@dataclass(frozen=True)
class _How:
    """What is done at every point."""

    meta: bool
    train: bool
    optimizer: str | None
    mesh: Mapping[str, int] | None
    generate: int | None
    kernels: str
    timing: Mapping[str, Any]


def _measured(values: Mapping[str, AxisValue], target: Target, how: _How) -> Point:
    timing = {} if how.meta else how.timing
    if how.generate is not None:
        return Point(values, generation=generate_target(target, how.generate, latency=not how.meta, **timing))
    more: dict[str, Any] = {"optimizer": how.optimizer, "mesh": how.mesh, "kernels": how.kernels}
    return Point(values, profile_target(target, train=how.train, meta=how.meta, **more, **timing))


class _Made:
    """A function of the user's that makes a model for each point."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, values: Mapping[str, Any]) -> Target:
        name = getattr(self._make, "__name__", "the function")
        with users_code(name):
            found = self._make(**values)
        model, *inputs = found if isinstance(found, tuple) else (found,)
        if not isinstance(model, nn.Module):
            raise InputError(f"{name} returned {type(model).__name__}; it has to return a model and its inputs.")
        call = Call.of(inputs)
        return Target(name, model, call.args, call.kwargs)


class _Named:
    """A target by name; a model is built once for all points that differ only in their inputs."""

    def __init__(
        self, text: str, inputs: str | Sequence[str], how: _How, device: str | None, dtype: str | None
    ) -> None:
        self._address = parse_address(text)
        self._inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        self._how, self._device, self._dtype = how, device, dtype
        self._built: tuple[Any, Target, Call, Any] | None = None

    def __call__(self, values: Mapping[str, Any]) -> Target:
        address = changed_address(self._address, values)
        dtype = parse_model_dtype(str(values[DTYPE])) if DTYPE in values else self._dtype
        how = self._how
        key = (tuple(sorted(address.changes.items())), dtype)
        if self._built is None or self._built[0] != key:
            self._built = None  # one large model at a time
            check_target(address)
            blueprint = make_blueprint(address, generates=how.generate is not None)
            kept = how.optimizer is not None
            target, brought = build_target(
                address, blueprint, device=self._device, dtype=dtype, meta=how.meta, train=how.train, optimizer=kept
            )
            self._built = (key, target, brought, blueprint)
        _, target, brought, blueprint = self._built
        sizes = Sizes(values.get(BATCH), values.get(SEQ))
        called = call_with(target, brought, blueprint, sized_inputs(self._inputs, values), sizes, train=how.train)
        shapes = [tensor.shape for tensor in tensors_in((called.args, called.kwargs))]
        if sizes.seq is not None and not self._inputs and not any(sizes.seq in shape for shape in shapes):
            raise InputError(
                f"seq sizes no input of {self._address.shown}: they are {described(called.args, called.kwargs)}. "
                f"Leave it out, or state them with the axis in braces: -i 1x{{seq}}:int64."
            )
        return called
