"""A run on a copy of the model and its optimizer: the originals are not run at all."""

from __future__ import annotations

import copy
from dataclasses import replace

from ...errors import InputError
from .model_run import ModelRun


def copy_of(run: ModelRun) -> ModelRun:
    """The same run on a copy, data included; the copied optimizer steps the copied parameters."""
    try:
        model, optimizer = copy.deepcopy((run.model, run.optimizer))
    except Exception as problem:
        raise InputError(
            f"{type(run.model).__name__} cannot be copied ({type(problem).__name__}: {problem}). "
            f'Profile the model itself, on="real": it is put back as it was.'
        ) from problem
    return replace(run, model=model, optimizer=optimizer, copied=True)
