"""`flopsight profile`: count and time a model."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..distributed.job_options import DEFAULTS, JobOptions, job_options, parse_switches
from ..distributed.mesh_axes import check_dry, parse_mesh
from ..errors import InputError
from ..progress import COUNTING, Progress
from ..results.caveats import Note
from ..results.profile import Profile
from ..results.timings import TIME_BUDGET
from ..targets.early_checks import check_device_name, check_optimizer_name
from ..targets.inputs import described, parse_inputs, parse_model_dtype
from ..targets.loading import Target, find_target, load_target
from ..targets.users import users_code
from . import options
from .short_measurement import short_measurement, with_ceilings
from .views import View, prepare_view

if TYPE_CHECKING:
    from ..results.generation import Generation
    from ..targets.loading import Target


SUMMED = Note(
    "The loss is the sum of the model's outputs, which have none of their own; with the loss of a real training, time and "
    "memory of backward differ."
)


def profile(
    context: typer.Context,
    target: options.TargetText,
    input: options.Inputs = None,
    train: options.Train = False,
    optimizer: Annotated[
        str | None, typer.Option("--optimizer", help="Step it too, with --train: adamw, sgd, any in torch.optim.")
    ] = None,
    device: options.Device = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="What to run in: float32, bfloat16, float16.")] = None,
    meta: options.Meta = False,
    mesh: options.Mesh = None,
    rank: options.Rank = 0,
    checkpoint: options.Checkpoint = None,
    precision: options.Precision = None,
    accumulate: options.Accumulate = None,
    fsdp: options.FsdpSwitches = None,
    generate: Annotated[
        int | None,
        typer.Option(
            "--generate", metavar="N", help="Decode N tokens after the prompt; prefill and decode apart.", min=1
        ),
    ] = None,
    cache: Annotated[
        str, typer.Option("--cache", help="Keys and values of --generate: dynamic (grows) or static (full length).")
    ] = "dynamic",
    strict: Annotated[bool, typer.Option("--strict", help="Fail (exit code 1) where an op is not counted.")] = False,
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
    _check_names(optimizer, device, train=train)
    ranks = _parse_ranks(mesh, rank, generate)
    job = job_options(ranks, checkpoint, precision, accumulate, parse_switches(fsdp) if fsdp else None)
    meta = meta or ranks is not None
    _check_together(view, meta=meta, device=device, train=train, generate=generate, cache=cache)
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
        results = _run_target(loaded, say, generate, cache, kernels=kernels, **how, **timing)
        if not (meta or on or no_measure):
            results = _with_measured_ceilings(results, loaded, say)
    remark_on_inputs(loaded)
    _present(results, view, strict=strict)


def _refuse_more_words(words: list[str]) -> None:
    if words:
        raise InputError(
            f"{' '.join(words)!r} is one word too many: a model is named by a single TARGET, and its arguments go after "
            f"a second colon, file.py:Class:width=32. Inputs go after -i."
        )


def _check_names(optimizer: str | None, device: str | None, *, train: bool) -> None:
    if optimizer and not train:
        raise InputError("--optimizer steps after a backward; add --train.")
    if optimizer:
        check_optimizer_name(optimizer)
    if device:
        check_device_name(device)


def _parse_ranks(mesh: str | None, rank: int, generate: int | None) -> dict[str, int] | None:
    ranks = parse_mesh(mesh) if mesh else None
    if ranks is not None:
        check_dry(ranks, rank)
    if ranks is not None and generate:
        raise InputError("--mesh counts a forward or a training step; leave out --generate or --mesh.")
    return ranks


def _check_together(
    view: View, *, meta: bool, device: str | None, train: bool, generate: int | None, cache: str
) -> None:
    """Refuse options that do not go together."""
    if meta and device:
        raise InputError("--meta runs on no device; leave out --device or --meta.")
    if meta and view.timeline:
        raise InputError("--meta runs nothing that takes time; leave it out for a timeline.")
    if generate and train:
        raise InputError("--generate decodes tokens, which is not training; leave out --train.")
    if cache not in ("dynamic", "static"):
        raise InputError(f"--cache is {cache!r}; it can be dynamic or static.")


def _run_target(loaded: Target, say: Progress, generate: int | None, cache: str, **how: Any) -> Profile | Generation:
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # torch's tracer writes lines of its own on stderr
    text, meta = loaded.text, how["meta"]
    if generate is not None:
        say(f"{text}: prompt and {generate} tokens", timed=not meta)
        return generate_tokens(loaded, generate, cache=cache, repeats=how["repeats"])
    say(f"{'counting' if meta else 'profiling'} {text}")
    return profile_target(loaded, progress=lambda doing: say(f"{text}: {doing}", timed=doing != COUNTING), **how)


def _with_measured_ceilings(results: Profile | Generation, loaded: Target, say: Progress) -> Profile | Generation:
    measured = short_measurement(loaded, partial(say, timed=True))
    return results if measured is None else with_ceilings(results, measured)


def _present(results: Profile | Generation, view: View, *, strict: bool) -> None:
    gc.freeze()  # drawing makes many objects, and collections would look through all of torch each time
    view.present(results)
    if strict:
        from ..engine.measure import checked

        for result in [results] if isinstance(results, Profile) else [results.prefill, results.last]:
            checked(result)


def remark_on_inputs(loaded: Target) -> None:
    """Say which inputs were made unasked."""
    if loaded.remark:
        print(f"Inputs: {loaded.remark}, made from the configuration; -i says others.", file=sys.stderr)


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
    import torch

    from ..capture.model.model_run import default_loss, make_run, own_loss
    from ..engine.dry_count import count_dry
    from ..engine.measure import count
    from ..engine.measure import profile as measure
    from ..engine.named_models import named_optimizer

    model = target.model.train(train)
    step = named_optimizer(optimizer, model) if optimizer else None
    summed: set[bool] = set()

    def loss(output: Any) -> torch.Tensor:
        summed.add(own_loss(output) is None)
        return default_loss(output)

    with users_code(target.text, described(target.args, target.kwargs)), nullcontext() if train else torch.no_grad():
        how: dict[str, Any] = {"train": train, "optimizer": step, "loss": loss if train else None}
        if mesh is not None:
            result = count_dry(make_run(model, target.args, target.kwargs, **how), mesh, rank, job, kernels=kernels)
        elif meta:
            result = count(model, target.args, target.kwargs, on="meta", **how)
        else:
            result = measure(model, target.args, target.kwargs, **how, **timing)
    return replace(result, caveats=(*result.caveats, SUMMED)) if True in summed else result


def generate_tokens(target: Target, new_tokens: int, *, cache: str, repeats: int) -> Generation:
    """The prompt of a loaded target, and new tokens after it."""
    from ..engine.decoding import generation, prompt_of

    prompt = prompt_of(target)
    with users_code(target.text, described(target.args, target.kwargs)):
        return generation(target.model.eval(), prompt, new_tokens, cache=cache, repeats=repeats)
