"""What a rank's profile says beside its own figures: its place among the ranks, and the model without sharding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import reduce
from operator import add

import torch

from ..capture.count.tape import Tape
from ..capture.model.model_run import ModelRun
from ..capture.model.sites import Sites
from ..capture.model.tensors import with_tensors
from ..capture.twin.meta_copy import NoTwinError
from ..distributed.shards import unsharded, whole_tensor
from ..distributed.topology import rank_and_size, with_pipeline, world_of
from ..results.comm import CommRow
from ..results.profile import Profile
from ..results.records import FORWARD
from ..results.world import Whole, World


def in_its_world(profile: Profile, tape: Tape, sites: Sites) -> Profile:
    """The profile with this rank's place among the others; a stage or some experts are a part of the model, and say so."""
    if rank_and_size()[1] == 1:
        return profile
    world = with_pipeline(world_of(sites.roots.values()), tape.stages)
    exchanges = [facts for site, facts in tape.experts.items() if site.path in profile and profile[site.path].params]
    if exchanges:
        world = replace(world, expert=exchanges[0]["group_size"], expert_rank=exchanges[0]["group_rank"])
    return replace(profile, world=world, part=_part(world))


def _part(world: World) -> str:
    if world.pipeline > 1:
        return f"this rank ran stage {world.stage} of a pipeline of {world.pipeline} ranks; flopsight.gather joins the stages"
    if world.expert > 1:
        return f"each of {world.expert} ranks has experts of its own; flopsight.gather unites them"
    return ""


def with_whole(profile: Profile, run: ModelRun, count: Callable[[ModelRun, str], Profile]) -> Profile:
    """The profile with the figures of the unsharded model, which `count` finds out on a twin without data."""
    world = profile.world
    if world.size == 1 or profile.part or not (world.sharded or world.data_parallel > 1 or world.model_parallel > 1):
        return _of_a_part(profile)
    try:
        found = count(unsharded_run(run), run.device.type)
    except Exception as problem:
        return _without_whole(profile, _why(problem))
    if found.comm:
        return _hand_made(profile, found.comm)
    figures = figures_of(found)
    return replace(profile, unsharded=figures if profile.peak_bytes is not None else replace(figures, peak_bytes=None))


def with_whole_of_calls(
    profile: Profile, tape: Tape, device: str, count: Callable[[ModelRun, str], Profile]
) -> Profile:
    """The same for what ran in a loop of the user's: the calls of the model are made again on a twin without data.

    Only ranks that share tensors need it: others do the work of the whole. A loop's loss is not known, and the default
    one takes its place.
    """
    if profile.unsharded is not None or profile.part or profile.world.model_parallel == 1:
        return _of_a_part(profile)
    parts: list[Whole] = []
    try:
        for call in tape.root_calls.values():
            run = ModelRun(call.model, call.args, call.kwargs, train=profile.trained)
            parts += [figures_of(count(unsharded_run(run), device))] * call.times
    except Exception as problem:
        return _without_whole(profile, _why(problem))
    if not parts:
        return _without_whole(profile, "it was not called")
    one, saved = parts[0], max(part.activation_bytes for part in parts)
    work = replace(reduce(add, parts), params=one.params, active_params=one.active_params)
    return replace(profile, unsharded=replace(work, activation_bytes=saved, peak_bytes=None))


def _of_a_part(profile: Profile) -> Profile:
    """Ranks without a parallel wrapper whose model itself exchanges tensors hold shards that we cannot read."""
    world, rows = profile.world, [row for row in profile.comm if row.phase == FORWARD]
    wrapped = world.sharded or world.data_parallel > 1
    if profile.part or wrapped or not rows:
        return profile
    return _hand_made(profile, rows)


def _hand_made(profile: Profile, rows: Iterable[CommRow]) -> Profile:
    ops = ", ".join(sorted({row.op for row in rows}))
    return replace(profile, part=f"the model exchanges tensors in its own code ({ops}), so its shards are hand-made")


def unsharded_run(run: ModelRun) -> ModelRun:
    """The same run of the model as it was before it was sharded, without data."""
    args, kwargs = with_tensors((run.args, dict(run.kwargs or {})), whole_tensor)
    with torch.no_grad():
        model, optimizer = unsharded(run.model, run.optimizer)
    return replace(run, model=model, args=args, kwargs=kwargs, optimizer=optimizer)


def _why(problem: BaseException) -> str:
    reason = str(problem) if isinstance(problem, NoTwinError) else f"{type(problem).__name__}: {problem}"
    return reason.splitlines()[0]


def _without_whole(profile: Profile, why: str) -> Profile:
    """Ranks that differ in their batches alone do the same work as the whole; ranks that share tensors do not."""
    if profile.world.model_parallel == 1:
        return profile
    rows = [row for row in profile.comm if row.phase == FORWARD]
    if rows and not profile.world.mesh:  # ranks that share tensors without a mesh, as DeepSpeed's `mpu` says
        return _hand_made(profile, rows)
    return replace(profile, part=f"the model without its shards cannot be counted: {why}")


def figures_of(found: Profile) -> Whole:
    """The figures of a whole model, from its profile."""
    return Whole(**{figure.name: getattr(found, figure.name) for figure in fields(Whole)})
