"""The examination: what is installed, then every check that can run on it."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from .. import __version__
from ..errors import TorchError
from .checkup import Checked, Examination

IMPORTS = "imports"
ALL_BUT_SAVED = "everything but saved profiles (`show`, `diff`, `check`)"


def examine(device: str | None = None) -> Examination:
    """Look at everything; a torch that is missing, broken or too old ends it early."""
    about = {"flopsight": __version__, "python": platform.python_version()}
    try:
        import torch

        about["torch"] = torch.__version__
        where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    except Exception as problem:  # a library that does not load raises OSError, a half-installed torch anything
        standing, found = _not_imported(problem)
        there = Checked(IMPORTS, "torch", False, found, ALL_BUT_SAVED)
        return Examination(**({"torch": "none"} | about), device="none", standing=standing, checks=(there,))
    try:
        from ..capture.hooks.release import unproven
    except TorchError as problem:
        old = Checked(IMPORTS, "torch", False, str(problem), ALL_BUT_SAVED)
        return Examination(**about, device="none", standing="too old", checks=(old,))
    standing = "unproven" if unproven(torch.__version__) else "tested"
    return Examination(**about, device=where, standing=standing, checks=tuple(_checks(where)))


def _not_imported(problem: Exception) -> tuple[str, str]:
    if isinstance(problem, ModuleNotFoundError) and problem.name == "torch":
        return "missing", "torch is not installed: pip install torch"
    return "broken", f"importing torch raises {type(problem).__name__}: {problem}"


def _checks(device: str) -> Iterator[Checked]:
    from .private_apis import private_apis

    yield from private_apis()
    try:
        import torch

        from .closed_forms import closed_forms
        from .facilities import facilities
    except Exception as problem:  # a private name that is gone fails where it is first read
        cause = problem.__cause__ or problem
        yield Checked(IMPORTS, "flopsight", False, f"{type(cause).__name__}: {cause}", "every count and every time")
        return
    try:
        torch.ones(1, device=device).item()
    except Exception as problem:
        yield Checked("device", device, False, f"torch cannot use it here: {problem}", f"every figure on {device}")
        return
    yield from closed_forms(torch.device(device))
    yield from facilities(torch.device(device))
