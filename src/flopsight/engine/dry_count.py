"""One rank of a mesh, counted in this process without data: the job is built, but it never runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from ..capture.model.model_run import ModelRun
from ..capture.twin.meta_copy import NoTwinError, twin_of
from ..distributed.cutting import cut
from ..distributed.dryrun import dry_job
from ..distributed.mesh_axes import check_dry, check_mesh
from ..errors import InputError
from ..results.profile import Profile
from .counting import count_run
from .parallel_figures import figures_of
from .run_profile import Options


def count_dry(
    run: ModelRun,
    mesh: Mapping[str, int],
    rank: int = 0,
    *,
    kernels: str = "cpu",
) -> Profile:
    """Count what one rank of a job on this mesh does in a run; the model that was handed in stays as it is.

    Inputs are those of one rank. `kernels` are imitated: "cpu" equals a job over gloo, "meta" is a recent GPU.
    """
    mesh = check_mesh(mesh)
    check_dry(mesh, rank)
    options = Options(memory=True, target=kernels, whole=False)
    twin = _copy_without_data(run)
    with dry_job(mesh, rank) as ranks:
        names = {id(parameter): name for name, parameter in twin.model.named_parameters()}
        model = cut(twin.model, ranks, train=run.train)
        if twin.optimizer is not None:
            _hold_parameters_of(model, twin.optimizer, names)
        counted = count_run(replace(twin, model=model), options)
    whole = count_run(_copy_without_data(run), options)
    return replace(counted, dry_run=True, unsharded=figures_of(whole))


def _copy_without_data(run: ModelRun) -> ModelRun:
    try:
        return replace(twin_of(run), copied=True)
    except NoTwinError as problem:
        raise InputError(
            f"A dry run needs a copy of the model without data, and there can be none ({problem}): "
            f"give the model as it is before hooks and wrappers are put on it."
        ) from problem


def _hold_parameters_of(model: nn.Module, optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> None:
    """Let an optimizer step the parameters of a model that was cut, which have taken the places of those it held."""
    cut_ones = {name.removeprefix("module."): parameter for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        group["params"] = [cut_ones[names[id(parameter)]] for parameter in group["params"]]
    optimizer.state.clear()
