"""`flopsight profile`: count and time a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from .. import units
from ..distributed.job_options import job_options, parse_plan, parse_switches
from ..distributed.mesh_axes import check_dry, parse_mesh
from ..errors import InputError
from ..files.collector import collector_paused
from ..hardware.named import named_ceilings
from ..progress import COUNTING, Progress
from ..results.generation import Generation
from ..results.packing import packing_of
from ..results.profile import Profile
from ..results.timings import TIME_BUDGET
from ..targets.early_checks import check_names
from ..targets.inputs import parse_inputs, parse_model_dtype
from ..targets.loading import Target, find_target, load_target
from . import options
from .completion import complete_target
from .short_measurement import short_measurement, with_ceilings
from .views import View, prepare_view


def profile(
    context: typer.Context,
    target: options.TargetText,
    input: options.Inputs = None,
    train: options.Train = False,
    optimizer: options.Optimizer = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    meta: options.Meta = False,
    mesh: options.Mesh = None,
    rank: options.Rank = 0,
    checkpoint: options.Checkpoint = None,
    precision: options.Precision = None,
    accumulate: options.Accumulate = None,
    fsdp: options.FsdpSwitches = None,
    tp_plan: options.TpPlan = None,
    generate: options.Generate = None,
    cache: Annotated[
        str, typer.Option("--cache", help="Keys and values of --generate: dynamic (grows) or static (full length).")
    ] = "dynamic",
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", metavar="FORMAT", help="Of --generate, as if packed: int8, int4, int4:32 (groups), fp8."
        ),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            "--draft",
            metavar="TARGET",
            help="A smaller model that drafts tokens of --generate.",
            autocompletion=complete_target,
        ),
    ] = None,
    accept: Annotated[
        float | None, typer.Option("--accept", help="The chance that a token of --draft is accepted.", min=0.0, max=1.0)
    ] = None,
    draft_length: Annotated[
        int, typer.Option("--draft-length", help="Tokens that --draft proposes in a round.", min=1)
    ] = 4,
    strict: Annotated[bool, typer.Option("--strict", help="Fail (exit code 1) if an op is not counted.")] = False,
    repeats: Annotated[int, typer.Option("--repeats", help="Timed runs.", min=1)] = 10,
    warmup: Annotated[int, typer.Option("--warmup", help="Runs before the timed ones.", min=0)] = 3,
    time_budget: Annotated[
        float, typer.Option("--time-budget", help="Seconds after which no further timed run begins.", min=0.001)
    ] = TIME_BUDGET,
    output: options.Outputs = None,
    format: options.Format = "tree",
    depth: options.Depth = None,
    top: options.Top = None,
    full: options.Full = False,
    width: options.Width = None,
    sort: options.Sort = None,
    on: options.On = None,
    progress: options.Progress = False,
    no_measure: options.NoMeasure = False,
) -> None:
    """Count and time a model, module by module. Without --train it runs as in inference: eval mode, no gradients."""
    _refuse_more_words(context.args)
    specs = parse_inputs(input or [])
    number = parse_model_dtype(dtype) if dtype else None
    view = prepare_view(format, depth=depth, top=top, full=full, width=width, sort=sort, on=on, outputs=output or ())
    if optimizer and not train:
        raise InputError("--optimizer steps after a backward; add --train.")
    check_names(device, optimizer, meta=meta or mesh is not None)
    ranks = _parse_ranks(mesh, rank, generate)
    switches = None if fsdp is None else parse_switches(fsdp)
    plan = None if tp_plan is None else parse_plan(tp_plan)
    job = job_options(ranks, checkpoint, precision, accumulate, switches, plan)
    meta = meta or ranks is not None
    _check_together(view, meta=meta, train=train, generate=generate, cache=cache)
    served = {"cache": cache, "weights": weights, "draft": draft, "acceptance": accept, "draft_length": draft_length}
    _check_served(generate, weights, draft, accept, on)
    address = find_target(target, specs)
    timing = {"repeats": repeats, "warmup": warmup, "time_budget": time_budget, "timeline": view.timeline}
    with Progress(asked=progress) as say:
        say(f"building {target}")
        loaded = load_target(
            address,
            specs,
            device=device,
            dtype=number,
            meta=meta,
            train=train,
            optimizer=optimizer is not None,
            generates=generate is not None,
        )
        how = {"train": train, "optimizer": optimizer, "meta": meta, "mesh": ranks, "rank": rank, "job": job}
        kernels = "cpu" if on is None else "meta"
        results = _run_target(loaded, say, generate, served, kernels=kernels, **how, **timing)
        if not (meta or on or no_measure):
            measured = short_measurement(loaded, partial(say, timed=True))
            results = results if measured is None else with_ceilings(results, measured)
    if loaded.remark:
        print(f"Inputs: {loaded.remark}, made from the configuration; -i says others.", file=sys.stderr)
    _present(results, view, strict=strict)


def _refuse_more_words(words: list[str]) -> None:
    if words:
        raise InputError(
            f"{' '.join(words)!r} is one word too many: a model is named by a single TARGET, and its arguments go after "
            f"a second colon, file.py:Class:width=32. Inputs go after -i."
        )


def _parse_ranks(mesh: str | None, rank: int, generate: int | None) -> dict[str, int] | None:
    ranks = None if mesh is None else parse_mesh(mesh)
    if ranks is None and rank:
        raise InputError(f"--rank {rank} is one of a mesh, and there is none: add one, like --mesh fsdp=8.")
    if ranks is not None:
        check_dry(ranks, rank)
    if ranks is not None and generate:
        raise InputError("--mesh counts a forward or a training step; leave out --generate or --mesh.")
    return ranks


def _check_together(view: View, *, meta: bool, train: bool, generate: int | None, cache: str) -> None:
    """Refuse options that do not go together."""
    if meta and view.timeline:
        raise InputError("--meta runs nothing that takes time; leave it out for a timeline.")
    if generate and train:
        raise InputError("--generate decodes tokens, which is not training; leave out --train.")
    if cache not in ("dynamic", "static"):
        raise InputError(f"--cache is {cache!r}; it can be dynamic or static.")


def _run_target(
    loaded: Target, say: Progress, new_tokens: int | None, served: Mapping[str, Any], **how: Any
) -> Profile | Generation:
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # torch's tracer writes lines of its own on stderr
    text, meta = loaded.text, how["meta"]
    if new_tokens is not None:
        from ..engine.decoding import generate_target

        say(f"{text}: prompt and {new_tokens} tokens", timed=not meta)
        return generate_target(loaded, new_tokens, **served, repeats=how["repeats"])
    with collector_paused():  # a collection would look through all of torch and of the model's library
        from ..engine.target_profile import profile_target
    say(f"{'counting' if meta else 'profiling'} {text}")
    return profile_target(loaded, progress=lambda doing: say(f"{text}: {doing}", timed=doing != COUNTING), **how)


def _present(results: Profile | Generation, view: View, *, strict: bool) -> None:
    with collector_paused():  # drawing makes many objects, and collections would look through all of torch each time
        view.present(results)
    if strict:
        from ..engine.measure import checked

        for result in [results] if isinstance(results, Profile) else [results.prefill, results.last]:
            checked(result)


def _check_served(
    generate: int | None, weights: str | None, draft: str | None, accept: float | None, on: str | None
) -> None:
    """Refuse options of --generate without it, weights that the device has no products for, a draft without --accept."""
    if generate is None and (weights or draft or accept is not None):
        raise InputError("--weights, --draft and --accept are about the tokens of --generate N; add it.")
    if weights:
        _check_device_runs(weights, on)
    if draft and accept is None:
        raise InputError("--draft needs the chance that its tokens are accepted: --accept 0.8.")
    if accept is not None and not draft:
        raise InputError(
            "--accept is the chance that a token of a draft is accepted; name the draft: --draft hf:llama-3.1-8b."
        )


def _check_device_runs(weights: str, on: str | None) -> None:
    runs_in = packing_of(weights).runs_in
    if not runs_in or on is None:
        return
    ceilings = named_ceilings(on)
    if not ceilings.peak(runs_in):
        known = ", ".join(f"{dtype} {units.rate(rate)}" for dtype, rate in ceilings.flops.items() if "/" not in dtype)
        raise InputError(
            f"{ceilings.name} has no {weights} products, only {known}: take --weights int8 or int4, which are unpacked into the model's "
            f"own dtype, or a device that has them, like h100-sxm."
        )
