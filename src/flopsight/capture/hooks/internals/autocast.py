"""Casts of a target device, registered under a dispatch key that torch does not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

SPARE_AUTOCAST = "AutocastIPU"
"""The dispatch key of a device that torch has no kernels for: casts that are registered there touch nothing else."""
_SPARE: Any = torch._C.DispatchKey.AutocastIPU  # type: ignore[attr-defined]


def autocast_ops(device: str) -> dict[str, Any]:
    """Names of the ops that autocast casts on a device."""
    key = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}.get(device)
    names = [] if key is None else torch._C._dispatch_get_registrations_for_dispatch_key(key)
    found = {}
    for name in names:
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if namespace == "aten" and op is not None:
            found[rest] = op
    return found


def register_spare_autocast(kernels: Mapping[str, Callable[..., Any]]) -> Callable[[], None]:
    """Register casts of aten's ops under the spare key, where other ops pass; gives what takes them off again."""
    others, library = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, SPARE_AUTOCAST)
    for name, kernel_of_it in kernels.items():
        library.impl(name, kernel_of_it, SPARE_AUTOCAST)

    def unregister() -> None:
        library._destroy()
        others._destroy()

    return unregister


_set_autocast = torch.set_autocast_enabled


@contextmanager
def autocast_set(device: str, dtype: torch.dtype, *, on: bool) -> Iterator[None]:
    """Enable or disable autocast in the block without notifying observers, also of a device that is not here."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    _set_autocast(device, on)
    torch.set_autocast_dtype(device, dtype)
    try:
        yield
    finally:
        _set_autocast(device, before[0])
        torch.set_autocast_dtype(device, before[1])


def fake_tensors() -> Any:
    """A context that makes tensors without data, on any device, whether it is here or not."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def use_spare_autocast(*, on: bool) -> None:
    """Have this thread's ops go through the casts registered under the spare key, or no longer."""
    torch._C._dispatch_tls_set_dispatch_key_excluded(_SPARE, not on)
    torch._C._dispatch_tls_set_dispatch_key_included(_SPARE, on)


def without_spare_autocast() -> Any:
    """A context in which ops do not go through those casts."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_SPARE))
