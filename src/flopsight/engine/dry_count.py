"""One rank of a mesh, counted in this process without data: the job is built, but it never runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..capture.hooks.garbage import rarer_collections
from ..capture.model.model_run import ModelRun
from ..capture.model.tensors import with_tensors
from ..capture.twin.meta_copy import NoTwinError, twin_of
from ..distributed.cutting import cut, without_wrappers
from ..distributed.dryrun import dry_job
from ..distributed.job_options import DEFAULTS, JobOptions, check_switches
from ..distributed.mesh_axes import check_dry, check_mesh
from ..distributed.recomputing import checkpoint_blocks
from ..errors import InputError
from ..results.profile import Profile
from .counting import count_run
from .parallel_figures import figures_of
from .run_profile import Options


def count_dry(
    run: ModelRun,
    mesh: Mapping[str, int],
    rank: int = 0,
    options: JobOptions = DEFAULTS,
    *,
    kernels: str = "cpu",
    whole: bool = True,
) -> Profile:
    """Count what one rank of a job on this mesh does in a run; the model that was handed in stays as it is.

    Inputs are those of one rank. `options` say how the job trains: `JobOptions(checkpoint="full", precision="bf16")`.
    With `precision="bf16"` the copy has float32 weights whatever the model's dtype is, so gradients and the optimizer's
    state are float32 too (16 bytes a parameter with AdamW); FSDP2's MixedPrecisionPolicy gathers and computes in
    bfloat16, and without an `fsdp` axis autocast does. `kernels` are imitated: "cpu" equals a job over gloo, "meta" is a
    recent GPU. `whole=False` leaves out `p.whole`, which takes a second count.
    """
    mesh = check_mesh(mesh)
    check_dry(mesh, rank)
    check_switches(mesh, options)
    with rarer_collections():
        return _counted(
            _job_s(run, options), mesh, rank, options, Options(memory=True, target=kernels, whole=False), whole
        )


def _counted(
    twin: ModelRun, mesh: Mapping[str, int], rank: int, options: JobOptions, watched: Options, whole: bool
) -> Profile:
    """The whole model first, while the copy is whole, then this rank's part of it."""
    kernels = str(watched.target)
    figures = figures_of(count_run(_stepping(twin, {}, options, kernels), watched)) if whole else None
    names = {id(parameter): without_wrappers(name) for name, parameter in twin.model.named_parameters()}
    with dry_job(mesh, rank) as ranks:
        model = cut(twin.model, ranks, options, train=twin.train)
        if twin.optimizer is not None:
            _hold_parameters_of(model, twin.optimizer, names)
        watched = replace(watched, offloaded=options.offload)
        counted = count_run(_stepping(replace(twin, model=model), mesh, options, kernels), watched)
    return replace(counted, dry_run=True, unsharded=figures)


@dataclass(frozen=True)
class _JobRun(ModelRun):
    """A run as a job makes it: under autocast, several micro-batches before the optimizer's step."""

    autocast: str = ""
    """The device whose casts are made; empty if none are."""
    accumulate: int = 1

    def forward(self) -> Any:
        """The model's forward, under autocast if the job computes in another dtype than it keeps."""
        with self._casting():
            return super().forward()

    def loss_of(self, output: Any) -> torch.Tensor:
        """The loss, which is a part of what autocast covers."""
        with self._casting():
            return super().loss_of(output)

    def step(self) -> Any:
        """Everything, once; gradients of several micro-batches are added up."""
        if not self.train:
            return self.forward()
        self.model.zero_grad(set_to_none=True)
        for _ in range(self.accumulate):
            output = self.forward()
            self.backward(output)
        self.update()
        return output

    def _casting(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.autocast, torch.bfloat16) if self.autocast else nullcontext()


def _stepping(run: ModelRun, mesh: Mapping[str, int], options: JobOptions, kernels: str) -> ModelRun:
    casts = options.precision is not None and mesh.get("fsdp", 1) == 1
    device = "cuda" if kernels == "meta" else kernels
    return _JobRun(**vars(run), autocast=device if casts else "", accumulate=options.accumulate)


def _job_s(run: ModelRun, options: JobOptions) -> ModelRun:
    """A copy without data, in the dtype that the job keeps, with its checkpoints."""
    twin = _copy_without_data(run)
    if run.train:
        checkpoint_blocks(twin.model, options.checkpoint)
    if options.precision is None:
        return twin
    twin.model.float()
    args, kwargs = with_tensors((twin.args, dict(twin.kwargs or {})), _wide)
    return replace(twin, args=args, kwargs=kwargs)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


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
    cut_ones = {without_wrappers(name): parameter for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        group["params"] = [cut_ones[names[id(parameter)]] for parameter in group["params"]]
    optimizer.state.clear()
