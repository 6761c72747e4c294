"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..render.formats import PICTURES, PRINTED, SUFFIXES
from ..targets.address import HELP
from .completion import complete_device, complete_format, complete_hardware, complete_target

TargetText = Annotated[
    str, typer.Argument(metavar="TARGET", help=HELP, show_default=False, autocompletion=complete_target)
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "-i", "--input", metavar="SHAPE", help="Inputs: 8x3x224x224, 1x128:int64 or input_ids=4x128:int64; several by comma.",
    ),
]  # fmt: skip
Device = Annotated[
    str | None,
    typer.Option("--device", help="Where to run: cpu, cuda, cuda:1, mps.", autocompletion=complete_device),
]
Train = Annotated[bool, typer.Option("--train", help="A training step: forward, loss and backward, in training mode.")]
Meta = Annotated[bool, typer.Option("--meta", help="Count without memory or kernels: the model is built on meta.")]
Mesh = Annotated[
    str | None,
    typer.Option("--mesh", metavar="AXES", help="Count one rank of a job in this process, on meta: fsdp=128,tp=8."),
]
Rank = Annotated[int, typer.Option("--rank", help="Which rank of --mesh.", min=0)]
Dtype = Annotated[str | None, typer.Option("--dtype", help="What to run in: float32, bfloat16, float16.")]
Optimizer = Annotated[
    str | None, typer.Option("--optimizer", help="Step it too, with --train: adamw, sgd, any in torch.optim.")
]
Generate = Annotated[
    int | None,
    typer.Option("--generate", metavar="N", help="Decode N tokens after the prompt; prefill and decode apart.", min=1),
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="HOW", help="What blocks compute again in backward: none, full, selective."),
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="bf16: float32 weights and bfloat16 products; without it the model's dtype."),
]
Accumulate = Annotated[
    int | None, typer.Option("--accumulate", metavar="N", help="Micro-batches before the optimizer's step.", min=1)
]
FsdpSwitches = Annotated[
    str | None,
    typer.Option("--fsdp", metavar="SWITCHES", help="Of FSDP2: reshard=no,reduce=fp32,offload=yes,wrap=2."),
]
TpPlan = Annotated[
    str | None,
    typer.Option(
        "--tp-plan", metavar="PLAN", help="What tp divides, if not by the model's own plan: layers.*.up=colwise."
    ),
]
ProfileFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="PROFILE...", help="Profiles saved as JSON; several stand side by side.", show_default=False
    ),
]
ProfileFile = Annotated[Path, typer.Argument(metavar="PROFILE", help="A profile saved as JSON.", show_default=False)]
FORMAT_HELP = f"How to print: {', '.join(PRINTED)}."
Format = Annotated[str, typer.Option("-f", "--format", help=FORMAT_HELP, autocompletion=complete_format)]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help=f"Write it too, in the format of the suffix: {', '.join(SUFFIXES)}; a picture (svg, png, pdf) is called "
        f"after its kind, as in icicle.svg or net.roofline.pdf: {', '.join(PICTURES)}. May be repeated.",
    ),
]  # fmt: skip
Depth = Annotated[int | None, typer.Option("--depth", help="How deep to print; the default is all.")]
Top = Annotated[int | None, typer.Option("--top", help="How many rows, or modules at each depth, to print.")]
Full = Annotated[bool, typer.Option("--full", help="Every row: fold and leave out nothing.")]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort", help="Order of -f table: flops, macs, params, backward_flops, activation_bytes, latency, model."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="FIGURES", help="Columns of -f latex, or of several profiles: params,flops,latency."
    ),
]
Width = Annotated[int | None, typer.Option("--width", help="Characters in a line; the default is the terminal's.")]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="DEVICE",
        help="Limits on a device that is not here: h100-sxm, a100-sxm4-80, mi300x.",
        autocompletion=complete_hardware,
    ),
]
Progress = Annotated[
    bool,
    typer.Option("--progress", help="Say on stderr what is being done, a line a phase, if that is not a terminal."),
]
NoMeasure = Annotated[
    bool,
    typer.Option(
        "--no-measure",
        help="Show no limits if none of this device are known, instead of measuring it for 3 s at most.",
        envvar="FLOPSIGHT_NO_MEASURE",
    ),
]
