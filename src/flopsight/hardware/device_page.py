"""What `flopsight device` says: what was found, its peaks with grades and sources, and how to state a peak."""

from __future__ import annotations

from .. import units
from .detect import Found
from .known_ceilings import datasheet_of, recall
from .peaks import VARIABLE, Ambiguous, Device, Rating, sources

GRADES = {
    "A": "a vendor's table was read, or independent citations agree",
    "B": "one secondary source, or derived from units and clock",
    "C": "recalled or estimated: verify before relying on it",
}
HOW_TO_STATE = f'To state a dense peak yourself, in FLOP/s: {VARIABLE}="bf16=989e12,fp32=67e12"'
INTEGER = ("int8", "int4")

ROW = "{:<15}{:<18}{:<8}{}"
"""One line of the table of peaks: dtype, rate, grade and sources."""


def lines(found: Found) -> list[str]:
    """The whole page, a line an item."""
    page = [f"{label:<15}{text}" for label, text in facts(found)]
    rows = peak_rows(found)
    if rows:
        page += ["", ROW.format("dtype", "dense peak", "grade", "sources"), *(ROW.format(*row) for row in rows)]
    page += citations(found)
    return [*page, *measured_lines(found), "", HOW_TO_STATE]


def row_lines(device: Device) -> list[str]:
    """A row of the table: its peaks and the rest of its figures, each with its sources."""
    page = lines(Found("a row of the table", device.name, match=device))
    more = []
    if device.memory:
        more.append(
            ("memory", f"{device.memory.value / 2**30:.1f} GiB, grade {device.memory.grade}, {_keys(device.memory)}")
        )
    if device.l2:
        more.append(("L2 cache", f"{device.l2.value / 2**20:.4g} MiB, grade {device.l2.grade}, {_keys(device.l2)}"))
    link = device.interconnect
    if link and link.per_direction:
        rate = f"{link.per_direction / 1e9:.4g} GB/s a direction"
        more.append(("link", f"{link.kind}, {rate}, grade {link.grade}, {' '.join(link.sources)}"))
    place = page.index("") if "" in page else len(page)
    page[place:place] = [f"{label:<15}{text}" for label, text in more]
    return page[:-2]  # how to state a peak is for a device of this machine


def measured_lines(found: Found) -> list[str]:
    """What was measured on this machine, beside the datasheet's figures; or how to do so."""
    if not _is_here(found):
        return []
    kept = recall(found.name, _threads(found))
    if kept is None:
        return ["", "Nothing was measured on this machine yet: flopsight device --measure"]
    sheet = datasheet_of(found)
    above = "; the peaks above are for MFU" if peak_rows(found) else ""
    page = ["", f"{'measured':<15}{kept.made[:16].replace('T', ' ')} UTC, used for limits{above}"]
    for dtype, rate in kept.flops.items():
        peak = sheet.flops.get(dtype) if sheet else None
        page.append(f"{dtype:<15}{units.rate(rate):<18}{_beside(rate, peak)}".rstrip())
    if kept.bandwidth:
        beside = _beside(kept.bandwidth, sheet.bandwidth if sheet else None)
        page.append(f"{'memory':<15}{units.si(kept.bandwidth, 'B/s'):<18}{beside}".rstrip())
    if kept.host:
        page.append(
            f"{'host':<15}{', '.join(f'{kind} {seconds * 1e6:.1f}' for kind, seconds in kept.host.items())} us a call"
        )
    if kept.short:
        page.append(
            "This was measured in a few seconds. flopsight device --measure takes half a minute and measures more."
        )
    if kept.busy > BUSY:
        page.append(f"The machine was busy: samples lay up to {kept.busy:.0%} apart. Measure again when it is quiet.")
    return page


BUSY = 0.1
"""Spread of the samples above which a measured ceiling is in doubt."""


def _beside(rate: float, peak: float | None) -> str:
    return f"{rate / peak:.1%} of the datasheet's" if peak else ""


def _is_here(found: Found) -> bool:
    """Whether torch reported the device, so that it can be measured."""
    return found.device.partition(":")[0] in ("cpu", "cuda", "xpu", "mps", "hip")


def _threads(found: Found) -> int:
    if not found.device.startswith("cpu"):
        return 0
    import torch

    return torch.get_num_threads()


def facts(found: Found) -> list[tuple[str, str]]:
    """What torch reports of the device, and what the table has of it."""
    shown = [("device", found.device), ("name", found.name)]
    if found.compute_units:
        shown.append(("compute units", str(found.compute_units)))
    if found.memory:
        shown.append(("memory", f"{found.memory / 2**30:.1f} GiB"))
    shown.append(("taken as", verdict(found)))
    if found.known:
        bandwidth = found.known.bandwidth
        shown.append(("bandwidth", f"{bandwidth.value / 1e12:.4g} TB/s, grade {bandwidth.grade}, {_keys(bandwidth)}"))
        shown.append(("torch device", found.known.one_torch_device_is))
    if found.known and found.known.notes:
        shown.append(("note", found.known.notes))
    if found.tf32:
        shown.append(("float32", f"{' and '.join(sorted(found.tf32, reverse=True))} may run as TF32"))
    return shown


def verdict(found: Found) -> str:
    """Which row the device is, or why it has none."""
    if isinstance(found.match, Device):
        return f"{found.match.name} ({found.match.id}), {found.match.architecture} {found.match.target}"
    if isinstance(found.match, Ambiguous):
        return f"ambiguous: {found.match}. Its peaks are not known"
    if found.device.startswith("cpu"):
        return "a CPU: no table can tell its peak, which depends on clocks and vector width"
    if found.device.startswith("meta"):
        return "no device: nothing runs on meta tensors"
    return "not in the table under this name, number of units and memory: its peaks are not known"


def peak_rows(found: Found) -> list[tuple[str, str, str, str]]:
    """Peaks by dtype, what the user stated first."""
    rows = [(dtype, _rate(dtype, value), "-", "stated by you") for dtype, value in found.stated.items()]
    table = found.known.peaks if found.known else {}
    return rows + [(key, _rate(key, it.value), it.grade, _keys(it)) for key, it in table.items()]


def citations(found: Found) -> list[str]:
    """What the grades and the source keys on the page stand for."""
    if not found.known:
        return []
    figures = [found.known.bandwidth, *found.known.peaks.values()]
    grades = sorted({figure.grade for figure in figures})
    cited = dict.fromkeys(key for figure in figures for key in figure.sources)
    page = ["", *(f"grade {grade}: {GRADES[grade]}" for grade in grades)]
    for key in cited:
        source = sources()[key]
        page.append(f"{key}: {source.what}{f' [{source.where}]' if source.where else ''}")
    return page


def _rate(dtype: str, value: float) -> str:
    return f"{value / 1e12:.5g} {'TOP/s' if dtype in INTEGER else 'TFLOP/s'}"


def _keys(figure: Rating) -> str:
    return " ".join(figure.sources)
