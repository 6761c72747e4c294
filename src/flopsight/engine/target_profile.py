"""The profile of a target that was loaded: a forward, a training step, or one rank of a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from ..capture.model.model_run import default_loss, make_run, own_losses
from ..distributed.job_options import DEFAULTS, JobOptions
from ..results.caveats import Note
from ..results.profile import Profile
from ..targets.loading import Target
from .dry_count import count_dry
from .measure import count, profile
from .named_models import named_optimizer

SUMMED = Note(
    "The loss is the sum of the model's outputs, which have none of their own; with the loss of a real training, time and "
    "memory of backward differ."
)


def profile_target(
    target: Target,
    *,
    train: bool = False,
    optimizer: str | None = None,
    meta: bool = False,
    mesh: Mapping[str, int] | None = None,
    rank: int = 0,
    job: JobOptions = DEFAULTS,
    kernels: str = "cpu",
    **timing: Any,
) -> Profile:
    """The profile of a loaded target: an inference run, or a training step; of one rank if there is a mesh."""
    model = target.model.train(train)
    step = named_optimizer(optimizer, model) if optimizer else None
    summed: set[bool] = set()

    def loss(output: Any) -> torch.Tensor:
        summed.add(not own_losses(output))
        return default_loss(output)

    with target.calling(), nullcontext() if train else torch.no_grad():
        how: dict[str, Any] = {"train": train, "optimizer": step, "loss": loss if train else None}
        if mesh is not None:
            run = make_run(model, target.args, target.kwargs, **how)
            result = count_dry(run, mesh, rank, job, kernels=kernels)
        elif meta:
            result = count(model, target.args, target.kwargs, on="meta", **how)
        else:
            result = profile(model, target.args, target.kwargs, **how, **timing)
    return replace(result, caveats=(*result.caveats, SUMMED)) if True in summed else result
