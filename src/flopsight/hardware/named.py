"""A device by the name that a user writes, `h100-sxm`: its row of the table, or one sentence that says which rows it may mean."""

from __future__ import annotations

from ..errors import InputError, did_you_mean
from ..results.ceilings import Ceilings
from .detect import Found
from .peaks import Ambiguous, Device, devices, lookup


def named_device(name: str) -> Device:
    """The row that a name stands for; a name that several rows share, or none bears, is refused with what to write.

    >>> named_device("h100-sxm").name
    'H100 SXM5'
    """
    if not isinstance(name, str):
        raise InputError(f"A device is named by its text, like 'h100-sxm', not {name!r}.")
    found = lookup(name) or _by_beginning(name)
    if isinstance(found, Ambiguous):
        ids = ", ".join(f"{one.id} ({one.name})" for one in found.candidates)
        raise InputError(f"The device name {name!r} is ambiguous. Write one of: {ids}.")
    if found is None:
        known = [device.id for device in devices()]
        raise InputError(
            f"No device {name!r} is in the table.{did_you_mean(name.lower(), known)} Known: {', '.join(known)}."
        )
    return found


def named_ceilings(name: str, *, tf32_products: bool = False) -> Ceilings:
    """The datasheet's ceilings of a named device, under torch's default settings."""
    return datasheet(named_device(name), tf32_products=tf32_products)


def datasheet(device: Device, *, tf32_products: bool = False) -> Ceilings:
    """A row of the table as ceilings. Convolutions may run float32 as TF32, as torch lets them; products only if allowed."""
    tf32 = {"cudnn"} if device.vendor == "nvidia" else set()
    if tf32_products:
        tf32.add("matmul")
    rates = Found(device.id, device.name, match=device, tf32=frozenset(tf32)).peak_flops()
    return ceilings_from(device, rates)


def ceilings_from(device: Device, flops: dict[str, float]) -> Ceilings:
    """A row's memory and links, with rates of matrix work that are known already."""
    cache = device.last_level_cache or (int(device.l2.value) if device.l2 else None)
    return Ceilings(
        name=device.name,
        flops=flops,
        bandwidth=device.bandwidth.value,
        cache=cache,
        memory=int(device.memory.value) if device.memory else None,
        link=device.interconnect.per_direction if device.interconnect else None,
    )


def _by_beginning(name: str) -> Device | Ambiguous | None:
    """Rows whose id begins with the name and a dash: `a100` may be any of four."""
    word = name.strip().lower().replace(" ", "-")
    alike = tuple(device for device in devices() if device.id.startswith(f"{word}-"))
    if len(alike) > 1:
        return Ambiguous(name, alike)
    return alike[0] if alike else None
