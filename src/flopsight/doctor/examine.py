"""The examination: what is installed, then every check that can run on it."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from .. import __version__
from ..errors import TorchError
from .finding import Checked, Examination

IMPORTS = "imports"


def examine(device: str | None = None) -> Examination:
    """Look at everything; a torch that is missing or too old ends it early."""
    about = {"flopsight": __version__, "python": platform.python_version()}
    try:
        import torch
    except ImportError as problem:
        missing = Checked(IMPORTS, "torch", False, f"{problem}. Install it: pip install torch", "everything but `show`")
        return Examination(**about, torch="none", device="none", standing="missing", checks=(missing,))
    about["torch"] = torch.__version__
    try:
        from ..capture.hooks.release import unproven
    except TorchError as problem:
        old = Checked(IMPORTS, "torch", False, str(problem), "everything but `show`")
        return Examination(**about, device="none", standing="too old", checks=(old,))
    standing = "unproven" if unproven(torch.__version__) else "tested"
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return Examination(**about, device=str(where), standing=standing, checks=tuple(_checks(str(where))))


def _checks(device: str) -> Iterator[Checked]:
    from .private_apis import private_apis

    yield from private_apis()
    try:
        import torch

        from .closed_forms import closed_forms
        from .facilities import facilities
    except Exception as problem:  # a private name that is gone fails where it is first read
        yield Checked(IMPORTS, "flopsight", False, f"{type(problem).__name__}: {problem}", "every count and every time")
        return
    yield from closed_forms(torch.device(device))
    yield from facilities(torch.device(device))
