"""Sized before built: a model that does not fit into memory is measured on meta and refused with its size."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .. import units
from ..errors import FlopsightError, InputError
from ..hardware.free_memory import free_memory

Made = TypeVar("Made")
SMALL = 512 << 20
"""Bytes up to which a model is built without having been sized."""


class TooLarge(BaseException):
    """More than SMALL was allocated while a model was built; no `except Exception` of a model's code may catch it."""


def build_within_memory(
    shown: str, build: Callable[[], Any], *, device: str | None = None, train: bool = False, optimizer: bool = False
) -> Any:
    """What `build` returns; a large model is built on meta first, and refused if it does not fit."""
    small = if_small(build)
    if small is not None:
        return small
    sized = _sized(build)
    if sized is not None:
        params, weights = sized
        _check_room(shown, params, weights, device, copies=1 + train + (2 if optimizer else 0))
    return build()


def if_small(make: Callable[[], Made]) -> Made | None:
    """What `make` returns; None as soon as it allocates more than SMALL."""
    with contextlib.suppress(TooLarge), _allocating_at_most(SMALL):
        return make()
    return None


def _sized(build: Callable[[], Any]) -> tuple[int, int] | None:
    """Parameters and bytes of a model, built without memory; None if it cannot be built like that."""
    import torch

    try:
        # the model's code runs a second time, so what it prints is printed once
        with torch.device("meta"), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = build()
    except FlopsightError:
        raise
    except Exception:
        return None
    model = found[0] if isinstance(found, tuple) else found
    if not isinstance(model, torch.nn.Module):
        return None
    tensors = [*model.parameters(), *model.buffers()]
    weights = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return sum(parameter.numel() for parameter in model.parameters()), weights


def _check_room(shown: str, params: int, weights: int, device: str | None, copies: int) -> None:
    needed = weights * copies
    for place, name in (("cpu", "this machine"), (device or "cpu", device or "this machine")):
        free = free_memory(place)
        wanted = weights if place == "cpu" and device not in (None, "cpu") else needed
        if free is not None and wanted > free:
            more = f", {units.size(wanted)} with gradients and optimizer state" if wanted > weights else ""
            raise InputError(
                f"{shown} has {units.si(params)} parameters, {units.size(weights)}{more}; {name} has {units.size(free)} free. "
                f"Add --meta to count it without memory, or make it smaller with changes after a second colon."
            )


@contextlib.contextmanager
def _allocating_at_most(limit: int) -> Iterator[None]:
    """Raise TooLarge as soon as tensors made inside take more than the limit together."""
    import torch

    from ..capture.hooks.internals import TorchDispatchMode

    class Watch(TorchDispatchMode):
        made = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            sizes = args[0] if args and isinstance(args[0], list | torch.Size) else None
            if sizes and all(isinstance(size, int) for size in sizes):
                dtype = (kwargs or {}).get("dtype") or torch.get_default_dtype()
                device = (kwargs or {}).get("device")
                if device is None or torch.device(device).type != "meta":
                    self.made += torch.Size(sizes).numel() * dtype.itemsize
                if self.made > limit:
                    raise TooLarge
            return func(*args, **(kwargs or {}))

    with Watch():  # type: ignore[no-untyped-call]
        yield
