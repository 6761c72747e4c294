"""A plan: ways to train a model on so many GPUs, ranked, each with a predicted step and its memory by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .. import units
from ..errors import InputError
from .in_notebooks import InNotebooks
from .read_only import FixedTables

if TYPE_CHECKING:
    from ..render.pictures.plan_bars import PlanPictures


@dataclass(frozen=True)
class PlanOption(FixedTables):
    """One way to divide the model and the batch; every time in it is predicted."""

    mesh: Mapping[str, int]
    """Sizes of the axes dp, fsdp, tp, pp, cp and ep."""
    micro_batch: int
    """Samples of one forward on one replica."""
    accumulate: int
    """Micro-batches before a step of the optimizer."""
    checkpoint: str
    """none, selective or full: what is computed again in the backward."""
    parts: Mapping[str, float]
    """Predicted seconds of a step, by what they go to; only what is not hidden behind other work counts."""
    memory: Mapping[str, int]
    """Bytes of the fullest GPU at its peak, by kind."""
    room: int
    """Bytes that a GPU has for them."""
    gpus: int
    """All GPUs of the mesh."""
    samples: int
    """Samples a step over all GPUs."""
    tokens: int | None
    """Tokens a step over all GPUs; None if the model does not take tokens."""
    model_flops: int
    """FLOPs a step over all GPUs as MFU counts them: forward and backward, nothing that is computed again."""
    peak_flops: float
    """FLOP/s of one GPU at its datasheet's peak."""
    bound: str = ""
    """What takes most of the step: compute, memory, communication, launch or pipeline."""
    first_token: float | None = None
    """To serve: predicted seconds until a prompt that runs alone has its first token; None in training."""
    why: str = ""
    """What binds the step, in words."""
    assumptions: tuple[str, ...] = ()
    """What the prediction takes for granted, each with its number."""

    @property
    def mesh_text(self) -> str:
        """The mesh as the command line takes it, without axes of size 1."""
        return ",".join(f"{name}={size}" for name, size in self.mesh.items() if size > 1) or "dp=1"

    @property
    def step(self) -> float:
        """Predicted seconds of one step."""
        return sum(self.parts.values())

    @property
    def peak_bytes(self) -> int:
        """Bytes alive on the fullest GPU at its peak."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether the peak is within the memory of a GPU."""
        return self.peak_bytes <= self.room

    @property
    def samples_per_second(self) -> float:
        """Predicted samples a second over all GPUs."""
        return self.samples / self.step

    @property
    def tokens_per_second_per_gpu(self) -> float | None:
        """Predicted tokens a second of one GPU; None if the model does not take tokens."""
        return None if self.tokens is None else self.tokens / self.step / self.gpus

    @property
    def tflops_per_gpu(self) -> float:
        """Predicted model TFLOP/s of one GPU."""
        return self.model_flops / self.step / self.gpus / 1e12

    @property
    def mfu(self) -> float:
        """Predicted share of the peak that model FLOPs reach."""
        return 1e12 * self.tflops_per_gpu / self.peak_flops


@dataclass(frozen=True, repr=False)
class Plan(InNotebooks, FixedTables):
    """Ways to train a model on so many GPUs: the fastest that fits first, those that do not fit last."""

    target: str
    """The model, as it was named."""
    device: str
    """The kind of GPU."""
    gpus: int
    """How many of them; the most, if several numbers were tried."""
    options: tuple[PlanOption, ...]
    """Every way that was tried, the best first."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What holds for every option: sequence, precision, optimizer, ..."""

    @property
    def best(self) -> PlanOption:
        """The fastest option that fits; if none fits, the one that is nearest to it."""
        return self.options[0]

    def best_of(self, gpus: int) -> PlanOption:
        """The best option for `gpus` GPUs, one of the numbers that were tried."""
        for option in self.options:
            if option.gpus == gpus:
                return option
        raise InputError(
            f"This plan has no option for {gpus!r} GPUs; it has some for {', '.join(map(str, self.sizes))}."
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of GPUs that were tried, the smallest first."""
        return tuple(sorted({option.gpus for option in self.options}))

    def save(self, path: str | Path) -> Path:
        """Write the plan to `path`: `.json` to open again, `.html` for a page, `.txt` for what is printed."""
        from ..render.plan_page import write_plan

        return write_plan(self, Path(path))

    def to_html(self, path: str | Path) -> Path:
        """Write the plan to `path` as a page."""
        return self.save(Path(path).with_suffix(".html"))

    def render(self, top: int | None = None, width: int | None = None) -> str:
        """The plan as text: the best option with its reasons, then a table of `top` options, in lines of `width`."""
        from ..render.plan_page import plan_text

        return plan_text(self, top=top, width=width)

    @property
    def plot(self) -> PlanPictures:
        """Figures for a notebook or a paper: `plan.plot.memory()`, `plan.plot.step()`."""
        from ..render.pictures.plan_bars import PlanPictures

        return PlanPictures(self)

    def __str__(self) -> str:
        """The best option with its reasons, then the table."""
        return self.render()

    def __repr__(self) -> str:
        best = self.best
        return (
            f"<Plan of {len(self.options)} options for {self.target} on {self.gpus} x {self.device}: "
            f"{best.mesh_text}, predicted step {units.seconds(best.step)}>"
        )
