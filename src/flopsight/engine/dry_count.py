"""One rank of a mesh, counted in this process without data: the job is built, but it never runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..capture.hooks.garbage import rarer_collections
from ..capture.model.model_run import ModelRun, batch_size_of, tokens_of
from ..capture.model.tensors import with_tensors
from ..capture.twin.meta_copy import NoTwinError, twin_of
from ..distributed.blocks import repeated_blocks
from ..distributed.cutting import cut
from ..distributed.dryrun import dry_job
from ..distributed.job_options import DEFAULTS, JobOptions, check_switches
from ..distributed.mesh_axes import check_dry, check_mesh
from ..distributed.recomputing import checkpoint_blocks
from ..distributed.sequence_parts import CLOSED_FORM, gathering_keys, part_of
from ..distributed.stages import Boundary, Stage
from ..distributed.tp_styles import without_wrappers
from ..errors import InputError
from ..results.caveats import Assumed
from ..results.profile import Profile
from ..results.world import Whole
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
) -> Profile:
    """Count what one rank of a job on this mesh does in a run; the model stays as it is.

    Inputs are those of one rank. `options` say how the job trains: `JobOptions(checkpoint="full", precision="bf16")`.
    With `precision="bf16"` the copy has float32 weights whatever the model's dtype is, so gradients and the optimizer's
    state are float32 too (16 bytes a parameter with AdamW); FSDP2's MixedPrecisionPolicy gathers and computes in
    bfloat16, and without an `fsdp` axis autocast does. `kernels` are imitated: "cpu" equals a job over gloo, "meta" is a
    recent GPU.
    """
    mesh = check_mesh(mesh)
    check_dry(mesh, rank)
    check_switches(mesh, options)
    idle = [name for name in ("checkpoint", "accumulate") if getattr(options, name) != getattr(DEFAULTS, name)]
    if idle and not run.train:
        raise InputError(f"{' and '.join(idle)} would change nothing of a forward: add train=True, or --train.")
    if mesh.get("pp", 1) > 1:
        if not run.train:
            raise InputError("A pipeline is tried in training, where its schedule matters: add train=True, or --train.")
        options = replace(options, accumulate=max(options.accumulate, mesh["pp"]))
    casts = "cuda" if kernels == "meta" else ""
    watched = Options(memory=True, target=kernels, casts=casts, whole=False)
    with rarer_collections():
        return _counted(_job_s(run, options), mesh, rank, options, watched)


def _counted(twin: ModelRun, mesh: Mapping[str, int], rank: int, options: JobOptions, watched: Options) -> Profile:
    """The whole model first, while the copy is whole, then this rank's part of it."""
    boundary = Boundary()
    stages = mesh.get("pp", 1)
    with boundary.noted(twin.model) if stages > 1 else nullcontext():
        figures = _whole(twin, options, watched)
    parts = mesh.get("cp", 1)
    if parts > 1:
        args, kwargs = part_of((twin.args, dict(twin.kwargs or {})), parts)
        twin = replace(twin, args=args, kwargs=kwargs)
        boundary.divide(parts)
    parameters = twin.model.named_parameters(remove_duplicate=False)
    names = {without_wrappers(name): id(parameter) for name, parameter in parameters}
    blocks = repeated_blocks(twin.model)
    with dry_job(mesh, rank) as ranks:
        run = _stepping(twin, mesh, options)
        stage = None
        if stages > 1:
            stage = Stage(ranks["pp"].get_local_rank(), stages, options.accumulate, boundary, _travels(mesh, options))
            run = replace(run, last=stage.is_last)
            stage.of(twin.model, run.call, run.loss_of)
        there = set(twin.model.modules())
        blocks = {path: block for path, block in blocks.items() if block in there}
        model = cut(twin.model, ranks, options, blocks=blocks, train=twin.train)
        if twin.optimizer is not None:
            _hold_parameters_of(model, twin.optimizer, names)
        run = replace(run, model=model)
        if stage is not None:
            batch, step = stage.schedule(model, ranks["pp"].get_group(), twin.tensors[0], run.loss_of)
            run = replace(run, args=batch, kwargs={}, schedule=step)
        with gathering_keys(ranks["cp"]) if parts > 1 else nullcontext():
            counted = count_run(run, replace(watched, offloaded=options.offload))
    if stage is not None:  # `part` has no meaning here, since the whole is known
        times = stage.microbatches
        size, tokens = batch_size_of(twin), tokens_of(twin)
        counted = replace(counted, part="", batch_size=size and size * times, tokens=tokens and tokens * times)
    return replace(_named(counted, mesh), dry_run=True, unsharded=figures)


def _named(counted: Profile, mesh: Mapping[str, int]) -> Profile:
    """The profile with the axes that were asked for, also if some of them are joined for sharding."""
    parts, world = mesh.get("cp", 1), counted.world
    if parts > 1:  # whose ranks work on one batch, though they share gradients as if each had its own
        ways = world.model_parallel * parts
        world = replace(world, data_parallel=world.data_parallel // parts, model_parallel=ways)
        counted = replace(counted, caveats=(*counted.caveats, Assumed(CLOSED_FORM)))
    if parts * mesh.get("ep", 1) == 1:
        return counted
    asked = {name: size for name, size in mesh.items() if size > 1}
    return replace(counted, part="", world=replace(world, mesh=asked))


def _whole(twin: ModelRun, options: JobOptions, watched: Options) -> Whole:
    """The figures of the model without a mesh; of many micro-batches two are counted, and all others are like the second."""

    def counted(times: int) -> Whole:
        return figures_of(count_run(_stepping(twin, {}, replace(options, accumulate=times)), watched))

    if options.accumulate <= 2:
        return counted(options.accumulate)
    one, two, others = counted(1), counted(2), options.accumulate - 2
    return replace(
        two,
        macs=two.macs + others * (two.macs - one.macs),
        flops=two.flops + others * (two.flops - one.flops),
        backward=two.backward + (two.backward + one.backward * -1) * others,
        recompute=two.recompute + (two.recompute + one.recompute * -1) * others,
    )


def _travels(mesh: Mapping[str, int], options: JobOptions) -> torch.dtype | None:
    """The dtype of activations between stages, if FSDP casts them."""
    return torch.bfloat16 if options.precision and mesh.get("fsdp", 1) > 1 else None


@dataclass(frozen=True)
class _JobRun(ModelRun):
    """A run as a job makes it: under autocast, several micro-batches before the optimizer's step."""

    autocast: bool = False
    """Whether operands are cast; which ones, the counter knows by the device that it imitates."""
    accumulate: int = 1
    last: bool = True
    """Whether it has the head of the model, as a pipeline's last stage does."""
    schedule: Callable[[], None] | None = None
    """A step of a pipeline's stage: all micro-batches forward and backward."""

    def call(self, forward: Callable[..., Any], given: torch.Tensor | None) -> Any:
        """Call a stage's forward with the inputs of one micro-batch, `given` in place of the first tensor."""
        args, kwargs = self.args, dict(self.kwargs or {})
        if given is not None:
            old = self.tensors[0]
            args, kwargs = with_tensors((args, kwargs), lambda tensor: given if tensor is old else tensor)
        if not self.last:
            kwargs.pop("labels", None)  # whose loss would be that of activations
        with self._casting():
            return forward(*args, **kwargs)

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
        output = None
        if self.schedule is not None:
            self.schedule()
        for _ in range(self.accumulate if self.schedule is None else 0):
            output = self.forward()
            self.backward(output)
        self.update()
        return output

    def _casting(self) -> AbstractContextManager[Any]:
        return torch.autocast("cpu", torch.bfloat16) if self.autocast else nullcontext()


def _stepping(run: ModelRun, mesh: Mapping[str, int], options: JobOptions) -> _JobRun:
    casts = options.precision is not None and mesh.get("fsdp", 1) == 1
    return _JobRun(**vars(run), autocast=casts, accumulate=options.accumulate)


def _job_s(run: ModelRun, options: JobOptions) -> ModelRun:
    """A copy without data, in the dtype that the job keeps, with its checkpoints."""
    twin = _copy_without_data(run)
    if run.train:
        checkpoint_blocks(twin.model, options.checkpoint)
    if options.precision is None:
        return twin
    twin.model.float()
    given = twin.args, dict(twin.kwargs or {})
    args, kwargs = with_tensors(given, lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)
    return replace(twin, args=args, kwargs=kwargs)


def _copy_without_data(run: ModelRun) -> ModelRun:
    try:
        return replace(twin_of(run), copied=True)
    except NoTwinError as problem:
        raise InputError(
            f"A dry run needs a copy of the model without data, and there can be none ({problem}): "
            f"give the model as it is before hooks and wrappers are put on it."
        ) from problem


def _hold_parameters_of(model: nn.Module, optimizer: torch.optim.Optimizer, names: Mapping[str, int]) -> None:
    """Let an optimizer step the parameters of a model that was cut, which have taken the places of those it held.

    `names` are those of all parameters before, with their ids; a stage of a pipeline has some of them.
    """
    here = {
        names[without_wrappers(name)]: parameter for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    for group in optimizer.param_groups:
        group["params"] = [here[id(parameter)] for parameter in group["params"] if id(parameter) in here]
    optimizer.state.clear()
