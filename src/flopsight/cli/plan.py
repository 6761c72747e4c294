"""`flopsight plan`: before a cluster is booked, which mesh fits, and how fast it will be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..distributed.mesh_axes import EXAMPLE, parse_mesh
from ..files.whole_files import check_writable
from ..progress import Progress
from ..results.plan import Plan
from ..targets.early_checks import find_target
from ..units import parse_count
from . import options
from .completion import complete_hardware
from .views import save_and_print


def plan(
    target: options.TargetText,
    gpus: Annotated[str, typer.Option("--gpus", help="GPUs of the job: 64; several to compare: 1,2,4,8.")],
    on: Annotated[
        str,
        typer.Option(
            "--on", metavar="DEVICE", help="The GPU: h100-sxm, a100-sxm4-80.", autocompletion=complete_hardware
        ),
    ],
    batch: Annotated[str | None, typer.Option("--batch", help="Samples a step over all GPUs: 512.")] = None,
    seq: Annotated[str | None, typer.Option("--seq", help="Tokens in a sequence: 8k.")] = None,
    input: options.Inputs = None,
    mesh: Annotated[
        str | None, typer.Option("--mesh", help=f"This mesh alone: {EXAMPLE}. Axes: dp, fsdp, tp, pp, cp, ep.")
    ] = None,
    micro_batch: Annotated[
        int | None, typer.Option("--micro-batch", help="Samples that a GPU runs at once.", min=1)
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option("--accumulate", help="Micro-batches before an update.", min=1)
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Activation checkpointing of blocks: none, selective, full.")
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", help="bf16 (float32 weights and state), pure-bf16 or fp32.")
    ] = "bf16",
    optimizer: Annotated[str, typer.Option("--optimizer", help="adamw, adam, adamw8bit, adam8bit or sgd.")] = "adamw",
    compile: Annotated[bool, typer.Option("--compile", help="Pointwise chains fused, as torch.compile does.")] = False,
    fsdp: Annotated[
        str | None,
        typer.Option("--fsdp", help="FSDP's switches: reshard=no (or a number),reduce=fp32,offload=yes,wrap=2."),
    ] = None,
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", help="GPUs that NVLink connects.", min=1)] = 8,
    between_nodes: Annotated[
        float | None, typer.Option("--between-nodes", help="Gbit/s of each GPU's network card.")
    ] = None,
    assume: Annotated[
        str | None, typer.Option("--assume", help="Override assumptions by name: attention=0.5,chunks=8.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Plan generation instead of training.")] = False,
    prompt: Annotated[str | None, typer.Option("--prompt", help="With --serve: tokens of the prompt, 4k.")] = None,
    new: Annotated[str | None, typer.Option("--new", help="With --serve: tokens that are generated.")] = None,
    top: options.Top = None,
    width: options.Width = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it too: .json, .html or .txt. May be repeated."),
    ] = None,
    progress: options.Progress = False,
) -> None:
    """Find the mesh, micro-batch and checkpointing that fit and are fastest, by prediction, before a job runs."""
    _check_files(output or ())
    find_target(target)
    numbers = {name: None if text is None else parse_count(text) for name, text in
               (("batch", batch), ("seq", seq), ("prompt", prompt), ("new", new))}  # fmt: skip
    divided = None if mesh is None else parse_mesh(mesh)
    with Progress(asked=progress) as say:
        say(f"{target}: starting")
        from ..analysis.plan.machine import parse_assumptions
        from ..distributed.job_options import parse_switches
        from ..engine.planning import plan as run

        found = run(
            target, gpus=[parse_count(word) for word in gpus.split(",")], on=on, **numbers, input_shape=input or None, mesh=divided, micro_batch=micro_batch,
            accumulate=accumulate, checkpoint=checkpoint, precision=precision, optimizer=optimizer, compile=compile,
            fsdp=None if fsdp is None else parse_switches(fsdp), gpus_per_node=gpus_per_node, between_nodes=between_nodes,
            serve=serve, assume=None if assume is None else parse_assumptions(assume), progress=say,
        )  # fmt: skip
    present_plan(found, output or (), top=top, width=width)


def present_plan(plan: Plan, outputs: Sequence[Path], *, top: int | None = None, width: int | None = None) -> None:
    """Write a plan to the files that were named, and print it."""
    _check_files(outputs)
    save_and_print(plan.render(top, width), outputs, plan.save)


def _check_files(paths: Sequence[Path]) -> None:
    from ..render.plan_page import check_plan_file

    for path in paths:
        check_plan_file(path)
        check_writable(path)
