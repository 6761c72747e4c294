"""How a job trains: what is recomputed, in which precision, and FSDP's own switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import InputError, did_you_mean, whole_number
from .mesh_axes import check_mesh

CHECKPOINTS = {
    "none": "everything that backward needs is kept",
    "full": "every block keeps its inputs alone and runs again in backward",
    "selective": "every block keeps what attention and every second matrix product return, and computes the rest again",
}
"""What backward finds and what it computes again. `selective` is torchtitan's policy by ops."""
PRECISIONS = ("bf16",)
REDUCED = ("fp32", "bf16", "fp16")
WORDS = {"yes": True, "true": True, "no": False, "false": False}
EXAMPLE = "reshard=no,reduce=fp32,offload=yes,wrap=2"
PLAN_EXAMPLE = "layers.*.up=colwise,layers.*.down=rowwise"


def is_part(reshard: Any) -> bool:
    """Whether gathered weights are kept in parts, each on one of so many ranks."""
    return isinstance(reshard, int) and not isinstance(reshard, bool) and reshard > 1


def _one_of(name: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        hint = did_you_mean(str(value), allowed)
        raise InputError(f"{name} is {value!r}; it can be {', '.join(allowed)}.{hint}")


@dataclass(frozen=True)
class JobOptions:
    """What changes the work, the memory or the traffic of a job beside its mesh; as they stand, torch's defaults."""

    checkpoint: str = "none"
    """One of `CHECKPOINTS`: torch's checkpoint wrapper around every repeated block, non-reentrant."""
    precision: str | None = None
    """`bf16`: weights, gradients and optimizer state in float32, products and gathered weights in bfloat16. None: the
    dtype of the model for everything."""
    accumulate: int = 1
    """Micro-batches whose gradients are added up before the optimizer steps; inputs are those of one."""
    reshard: bool | int | None = None
    """Whether FSDP frees gathered weights after forward; None: of every block, not of the root; a number: of that many
    ranks each keeps a part until backward."""
    reduce: str | None = None
    """The dtype in which FSDP reduces gradients; None: that in which they are computed."""
    offload: bool = False
    """Whether shards, their gradients and the optimizer's state live in the memory of the host."""
    wrap: int = 1
    """Blocks that FSDP gathers together."""
    tp_plan: Mapping[str, Any] | None = None
    """Which layers are divided over `tp`, and how: styles by name, a star for one name; None: the model's own plan."""

    def __post_init__(self) -> None:
        _one_of("checkpoint", self.checkpoint, CHECKPOINTS)
        if self.precision is not None:
            _one_of("precision", self.precision, PRECISIONS)
        if self.reduce is not None:
            _one_of("fsdp reduce", self.reduce, REDUCED)
        if not isinstance(self.offload, bool):
            raise InputError(f"fsdp offload is True or False, not {self.offload!r}.")
        if not (self.reshard is None or isinstance(self.reshard, bool) or is_part(self.reshard)):
            raise InputError(f"fsdp reshard is True, False or a number of ranks above 1, not {self.reshard!r}.")
        if self.tp_plan is not None and (not isinstance(self.tp_plan, Mapping) or not self.tp_plan):
            raise InputError(
                f'tp_plan is a dict of styles by layer, like {{"layers.*.up": "colwise"}}, not {self.tp_plan!r}.'
            )
        whole_number("fsdp wrap", self.wrap, 1)
        whole_number("accumulate", self.accumulate, 1)


SWITCHES = ("reshard", "reduce", "offload", "wrap")
"""Those that are FSDP's own."""
DEFAULTS = JobOptions()


def job_options(
    mesh: Mapping[str, int] | None,
    checkpoint: str | None = None,
    precision: str | None = None,
    accumulate: int | None = None,
    fsdp: Mapping[str, Any] | None = None,
    tp_plan: Mapping[str, Any] | None = None,
) -> JobOptions:
    """The options of a job as a user gives them, FSDP's switches as a dict; what is None is left as it stands."""
    if fsdp is not None and not isinstance(fsdp, Mapping):
        raise InputError(f'fsdp is a dict of switches, like {{"reshard": False, "wrap": 2}}, not {fsdp!r}.')
    for name in fsdp or ():
        if name not in SWITCHES:
            hint = did_you_mean(str(name), SWITCHES) or f" There are {', '.join(SWITCHES)}."
            raise InputError(f"FSDP has no switch {name!r} here.{hint}")
    asked = {"checkpoint": checkpoint, "precision": precision, "accumulate": accumulate, "tp_plan": tp_plan}
    given = {name: value for name, value in (asked | dict(fsdp or {})).items() if value is not None}
    if given and mesh is None:
        raise InputError(f"{', '.join(given)} says how a job trains, and there is none: add a mesh, like {{'dp': 1}}.")
    options = JobOptions(**given)
    if mesh is not None:
        check_switches(check_mesh(mesh), options)
    return options


def parse_switches(text: str) -> dict[str, Any]:
    """FSDP's switches as they are written on a command line: `reshard=no,wrap=2`."""
    pairs = _pairs(text, f"a switch of FSDP: write name=value, as in --fsdp {EXAMPLE}")
    return {name: WORDS.get(word.lower(), int(word) if word.isdigit() else word) for name, word in pairs.items()}


def parse_plan(text: str) -> dict[str, str]:
    """A plan as it is written on a command line: `layers.*.up=colwise,layers.*.down=rowwise`."""
    return _pairs(text, f"a layer of a plan: write name=style, as in --tp-plan '{PLAN_EXAMPLE}'")


def _pairs(text: str, wanted: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name or not value:
            raise InputError(f"{item.strip()!r} is not {wanted}.")
        found[name] = value
    return found


def check_switches(mesh: Mapping[str, int], options: JobOptions) -> None:
    """Refuse switches of FSDP for a mesh without it."""
    given = [one.name for one in fields(options) if one.name in SWITCHES and getattr(options, one.name) != one.default]
    ranks = mesh.get("fsdp", 1)
    if given and ranks == 1:
        raise InputError(f"{', '.join(given)} of FSDP needs an fsdp axis of two ranks or more, and the mesh has none.")
    if is_part(options.reshard) and (ranks % int(options.reshard or 1) or options.reshard == ranks):
        parts = ", ".join(str(size) for size in range(2, ranks) if ranks % size == 0) or "none"
        raise InputError(
            f"reshard={options.reshard} is not a part of fsdp={ranks}; these are: {parts}, or say yes or no."
        )
    if options.tp_plan is not None and mesh.get("tp", 1) == 1:
        raise InputError("tp_plan says what is divided over tp, and the mesh has no tp axis of two ranks or more.")
