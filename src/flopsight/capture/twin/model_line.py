"""Which line of a model's code is running: the innermost one that is neither torch's nor ours."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import torch

OTHERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent.parent / "capture"))
"""Folders whose code is not the model's."""


def model_line() -> str:
    """`net.py:12`; empty where no code of a model is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*OTHERS, "<")):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
