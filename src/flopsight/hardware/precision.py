"""The settings by which torch trades precision for speed on a GPU, under the names that each release gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def tf32_users(torch: Any) -> frozenset[str]:
    """Who may run float32 as TF32: `matmul`, `cudnn`. MIOpen has no TF32."""
    homes = {"matmul": torch.backends.cuda.matmul}
    if not torch.version.hip:
        cudnn = torch.backends.cudnn
        homes["cudnn"] = getattr(cudnn, "conv", cudnn)  # cuDNN's own flag, to go with 2.8
    return frozenset(who for who, home in homes.items() if _tf32(home))


def half_accumulation(torch: Any) -> bool:
    """Whether float16 products may accumulate in float16; torch has the setting since 2.7."""
    return bool(getattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", False))


@contextmanager
def tf32_products(torch: Any, place: Any, *, allowed: bool) -> Iterator[None]:
    """Float32 products as TF32, or not; as it was afterwards."""
    if place.type != "cuda":
        yield
        return
    home = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "tf32" if allowed else "ieee") if _has_names(home) else ("allow_tf32", allowed)
    before = getattr(home, name)
    setattr(home, name, value)
    try:
        yield
    finally:
        setattr(home, name, before)


def _tf32(home: Any) -> bool:
    return home.fp32_precision == "tf32" if _has_names(home) else bool(home.allow_tf32)


def _has_names(home: Any) -> bool:
    """Whether a precision is set by name; before 2.9 there is a flag instead. To go with 2.8."""
    return hasattr(home, "fp32_precision")
