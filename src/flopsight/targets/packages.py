"""Importing the libraries that models come from, also if torchvision's compiled half does not fit this torch."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ..errors import InputError
from . import installed

BESIDE_TEXT = ("torchvision", "torchaudio", "librosa", "scipy", "sklearn")
"""What transformers imports wherever it is installed, for images, sound and metrics: up to two seconds of CPU."""
_process_is_ours = False


def claim_process() -> None:
    """Say that this process is the command line's own: no other code minds which libraries it can import."""
    global _process_is_ours  # noqa: PLW0603
    _process_is_ours = True


def transformers_for(model_type: str) -> Any:
    """transformers; in a process of ours without the libraries that a model of text does not use."""
    if _process_is_ours and installed.is_text_model(model_type):
        for name in BESIDE_TEXT:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # Python's mark of a module that is missing
    return library("transformers")


def library(name: str) -> Any:
    """An installed library, or an error that says how to install it."""
    if name != "torchvision":
        torchvision(needed=False)
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        missing = (problem.name or name).partition(".")[0]
        needed = f"{name} needs {missing}, which" if missing != name else name
        raise InputError(f"{needed} is not installed here. Install it: pip install {missing}") from None


def torchvision(*, needed: bool = True) -> Any:
    """torchvision, also if its compiled half does not fit this torch: its models need only the names of two ops."""
    try:
        return import_module("torchvision")
    except ModuleNotFoundError:
        if needed:
            raise InputError("torchvision is not installed here. Install it: pip install torchvision") from None
        return None
    except RuntimeError as problem:
        if "torchvision::nms" not in str(problem):
            raise
    import torch

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for op in ("nms", "qnms"):
        torch.library.define(f"torchvision::{op}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return import_module("torchvision")
