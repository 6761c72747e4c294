"""sweep(): one model at many sizes, each counted or timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import nn

from ..capture.model.tensors import tensors_in
from ..errors import FlopsightError, InputError
from ..progress import Told
from ..progress import points as showing_points
from ..results.profile import Profile
from ..results.sweep import AxisValue, Point, Sweep
from ..targets.address import parse_address
from ..targets.axes import BATCH, DTYPE, SEQ, changed_address, sized_inputs
from ..targets.blueprint import Call, Sizes
from ..targets.early_checks import check_target
from ..targets.inputs import described, parse_model_dtype
from ..targets.loading import Target, build_target, call_with, make_blueprint
from ..targets.users import TargetRaised, users_code
from .measure import count, profile


def sweep(
    target: str | Callable[..., Any],
    axes: Mapping[str, Sequence[Any]],
    *,
    inputs: str | Sequence[str] = (),
    train: bool = False,
    meta: bool = True,
    device: str | None = None,
    progress: Told | bool | None = None,
    **timing: Any,
) -> Sweep:
    """Count a model at every combination of values.

    `target` is a target as the command line takes it, or a function that is called with the values by name and returns a
    model and its inputs: `model, args` or `model, kwargs` or `model, args, kwargs`.

    `axes` maps names to values. `batch` and `seq` are the sizes of the inputs, `dtype` is the model's, `layers` its number
    of layers, and every other name is a key of the configuration or an argument of the class.

    `inputs` says shapes as `-i` does, with the axes in braces: `"{batch}x3x224x224"`. `train` runs a training step.
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
    source = _Named(target, inputs, meta, train, device) if isinstance(target, str) else _Made(target, meta)
    points: list[Point] = []
    combinations = [dict(zip(checked, values, strict=True)) for values in product(*checked.values())]
    begun = time.monotonic()
    problem: Exception | None = None
    with showing_points(progress, timed=not meta) as told:
        for done, values in enumerate(combinations):
            if told is not None:
                passed = time.monotonic() - begun
                told(done, len(combinations), passed / done * (len(combinations) - done) if done else None)
            try:
                points.append(Point(_plain(values), _measured(source(values), train=train, meta=meta, **timing)))
            except (FlopsightError, TargetRaised, RuntimeError) as found:
                problem = problem or found
                points.append(Point(_plain(values), error=" ".join(str(found).split())))
    if problem is not None and not any(point.profile for point in points):
        raise problem
    return Sweep({name: tuple(map(_as_text, values)) for name, values in checked.items()}, tuple(points))


def _plain(values: Mapping[str, Any]) -> dict[str, AxisValue]:
    return {name: _as_text(value) for name, value in values.items()}


def _as_text(value: Any) -> AxisValue:
    """A value of an axis as a sweep keeps it: numbers and texts as they are, anything else as its text."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _measured(target: Target, *, train: bool, meta: bool, **timing: Any) -> Profile:
    model = target.model.train(train)
    with users_code(target.text, described(target.args, target.kwargs)), torch.set_grad_enabled(train):
        if meta:
            return count(model, target.args, target.kwargs, train=train, on="meta")
        return profile(model, target.args, target.kwargs, train=train, **timing)


class _Made:
    """A function of the user's that makes a model for each point."""

    def __init__(self, make: Callable[..., Any], meta: bool) -> None:
        self._make, self._meta = make, meta

    def __call__(self, values: Mapping[str, Any]) -> Target:
        name = getattr(self._make, "__name__", "the function")
        with users_code(name):
            found = self._make(**values)
        model, *inputs = found if isinstance(found, tuple) else (found,)
        if not isinstance(model, nn.Module):
            raise InputError(f"{name} returned {type(model).__name__}; it has to return a model and its inputs.")
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        for given in inputs:
            if isinstance(given, Mapping):
                kwargs = dict(given)
            else:
                args = tuple(given) if isinstance(given, tuple | list) else (given,)
        return Target(name, model, args, kwargs)


class _Named:
    """A target by name; a model is built once for all points that differ only in their inputs."""

    def __init__(self, text: str, inputs: str | Sequence[str], meta: bool, train: bool, device: str | None) -> None:
        self._address = parse_address(text)
        self._inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        self._meta, self._train, self._device = meta, train, device
        self._built: tuple[Any, Target, Call, Any] | None = None

    def __call__(self, values: Mapping[str, Any]) -> Target:
        address = changed_address(self._address, values)
        dtype = parse_model_dtype(str(values[DTYPE])) if DTYPE in values else None
        key = (tuple(sorted(address.changes.items())), dtype)
        if self._built is None or self._built[0] != key:
            self._built = None  # one large model at a time
            check_target(address)
            blueprint = make_blueprint(address)
            target, brought = build_target(
                address, blueprint, device=self._device, dtype=dtype, meta=self._meta, train=self._train
            )
            self._built = (key, target, brought, blueprint)
        _, target, brought, blueprint = self._built
        sizes = Sizes(values.get(BATCH), values.get(SEQ))
        called = call_with(target, brought, blueprint, sized_inputs(self._inputs, values), sizes, train=self._train)
        if sizes.seq is not None and not self._inputs and not _has_size(called, sizes.seq):
            raise InputError(
                f"seq sizes no input of {self._address.shown}: they are {described(called.args, called.kwargs)}. "
                f"Leave it out, or state them with the axis in braces: -i 1x{{seq}}:int64."
            )
        return called


def _has_size(target: Target, size: int) -> bool:
    return any(size in tensor.shape for tensor in tensors_in((target.args, target.kwargs)))
