"""A stage of a pipeline: the blocks that one rank holds, and torch's own schedule around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..capture.hooks.patches import wrapped
from ..capture.hooks.release import TORCH
from ..capture.model.tensors import tensors_in
from ..errors import InputError, StateError
from .blocks import repeated_blocks, without_cache
from .sequence_parts import part_of

META = torch.device("meta")
OLDEST = (2, 12)
"""Before it, the fake group sends no batches of tensors without data."""
Step = tuple[tuple[torch.Tensor, ...], Callable[[], Any]]


class Absent(nn.Module):
    """Stands for a module that another stage holds; a forward may ask for the dtype of its weight."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        dtype = next((parameter.dtype for parameter in module.parameters()), None)
        self.weight = torch.empty(0, dtype=dtype, device=META)


class Passing(Absent):
    """Stands for the head, or a part of it: what comes in goes on."""

    def forward(self, x: Any, *_args: Any, **_kwargs: Any) -> Any:
        """The input itself."""
        return x


class Received(Absent):
    """Stands for the embedding: activations that were received take the place of what it would return."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.activations: list[torch.Tensor] = []

    def forward(self, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        """What was received; nothing for another part of the embedding, which would be added."""
        return self.activations.pop() if self.activations else torch.zeros((), device=META)


def layers_of(blocks: int, stages: int) -> list[range]:
    """The blocks of each stage, as evenly as can be; embedding and head count as a layer each."""
    layers = blocks + 2
    if stages > layers:
        raise InputError(
            f"pp={stages} has more stages than this model has layers: {blocks} repeated blocks, an embedding and a head. "
            f"Take pp={layers} or less."
        )
    sizes = [layers // stages + (number < layers % stages) for number in range(stages)]
    starts = [sum(sizes[:number]) - 1 for number in range(stages)]
    return [range(max(start, 0), min(start + size, blocks)) for start, size in zip(starts, sizes, strict=True)]


@dataclass
class Boundary:
    """What passes between the blocks of a whole model, and what it returns: shapes and dtypes."""

    activations: torch.Tensor | None = None
    output: Any = None

    @contextmanager
    def noted(self, model: nn.Module) -> Iterator[None]:
        """Note both while the model runs inside the block."""
        blocks = list(repeated_blocks(model).values())
        if not blocks:
            raise InputError("pp divides a model between its repeated blocks, and this model has none; leave pp out.")

        def comes_in(_block: nn.Module, args: Any, kwargs: Any) -> None:
            self.activations = tensors_in((args, kwargs))[0].detach()

        def goes_out(_model: nn.Module, _args: Any, output: Any) -> None:
            self.output = output.detach() if isinstance(output, torch.Tensor) else torch.empty((), device=META)

        hooks = [blocks[0].register_forward_pre_hook(comes_in, with_kwargs=True), model.register_forward_hook(goes_out)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def divide(self, parts: int) -> None:
        """Leave one of equal parts of every sequence in it."""
        if self.activations is not None:
            self.activations = part_of(self.activations, parts)
            self.output = part_of(self.output, parts) if self.output.dim() > 1 else self.output


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline, and what it runs."""

    number: int
    stages: int
    microbatches: int
    boundary: Boundary
    dtype: torch.dtype | None = None
    """Of activations, if the job does not compute in that of the model."""

    def of(self, model: nn.Module, call: Callable[..., Any], loss_of: Callable[[Any], Any]) -> None:
        """Leave in a model what this stage holds; its forward takes and gives what stages exchange.

        `call` calls the model's own forward with the inputs of one micro-batch, the first of them as it is given.
        """
        without_cache(model)  # a stage's cache of keys and values would count the layers of the others
        received = keep_stage(model, self.number, self.stages)
        plain: Callable[..., Any] = model.forward

        def forward(first: torch.Tensor) -> Any:
            if received is not None:
                received.activations.append(first)
            output = call(plain, first if received is None else None)
            if not self.is_last:
                return next(tensor for tensor in tensors_in(output) if tensor.is_floating_point())
            return output if isinstance(output, torch.Tensor) else loss_of(output)

        model.forward = forward

    @property
    def is_last(self) -> bool:
        """Whether the head is in it."""
        return self.number == self.stages - 1

    def schedule(self, model: nn.Module, group: Any, inputs: torch.Tensor, loss_of: Callable[[Any], Any]) -> Step:
        """The batch that this stage is given, and a step of torch's 1F1B schedule after what it sets up once."""
        if TORCH < OLDEST:
            raise StateError(f"A pipeline can be tried with torch 2.12 or newer; this is {torch.__version__}.")
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        # tensors of a dry run for a GPU are known as what they are, and torch asks the group what moves those
        group._register_backend(META, type(group).BackendType.CUSTOM, group._get_backend(torch.device("cpu")))
        assert self.boundary.activations is not None  # the whole model has run
        between = torch.empty_like(self.boundary.activations, dtype=self.dtype)
        first = inputs if self.number == 0 else between.requires_grad_()
        last = self.boundary.output if self.is_last else between
        made = PipelineStage(
            model, self.number, self.stages, META, input_args=first, output_args=last.requires_grad_(), group=group
        )
        schedule = Schedule1F1B(made, self.microbatches, loss_fn=lambda output, _target: loss_of(output))
        batch = inputs.repeat(self.microbatches, *[1] * (inputs.dim() - 1))
        given: tuple[torch.Tensor, ...] = (batch,) if self.number == 0 else ()
        target: dict[str, Any] = {"target": batch} if self.is_last else {}
        asks = next((kind for kind in type(schedule).__mro__ if "_warmup_p2p" in vars(kind)), None)
        static = wrapped(asks, "_warmup_p2p", _static) if asks is not None else nullcontext()
        with static, wrapped(torch.random, "fork_rng", _unforked):
            schedule._initialize_stage(given, {}, **target)

        def step() -> None:
            try:
                schedule.step(*given, **target, return_outputs=False)
            except RuntimeError as problem:  # torch puts it around whatever a stage raises
                cause = problem.__cause__ or problem
                raise InputError(
                    f"Stage {self.number} of pp={self.stages} cannot run the forward of this model without the modules of the "
                    f"other stages ({type(cause).__name__}: {cause}); leave pp out of the mesh."
                ) from problem

        return given, step


def _unforked(_plain: Any) -> Any:
    """Nothing is drawn without data, and torch 2.12 takes every device that is not a CPU for one of CUDA's."""
    return lambda *_args, **_kwargs: nullcontext()


def _static(_plain: Any) -> Any:
    """Stages that know their shapes have nothing to agree on; torch 2.12 to 2.14 ask all the same, on the fake group too."""
    from torch.distributed.pipelining import stage

    static = stage.InferenceMode.STATIC  # type: ignore[attr-defined]

    def told(_schedule: Any, stages: Any, *_args: Any, **_kwargs: Any) -> None:
        for one in stages:
            one._inference_mode = static

    return told


def keep_stage(model: nn.Module, number: int, stages: int) -> Received | None:
    """Leave in the model what this stage holds, under the names it had; gives the place where activations come in."""
    blocks = repeated_blocks(model)
    kept = layers_of(len(blocks), stages)[number]
    outer = list(_around_blocks(model, set(blocks.values())))
    for place, path in enumerate(blocks):
        if place not in kept:
            around, _, name = path.rpartition(".")
            del model.get_submodule(around)._modules[name]
    received = None
    for holder, name, comes_first in outer:
        module = holder.get_submodule(name)
        if comes_first and number:
            received = received or Received(module)
            setattr(holder, name, received)
        elif not comes_first and number < stages - 1:
            setattr(holder, name, Passing(module))
    if number and received is None:
        raise InputError(f"pp={stages} needs an embedding before the blocks of this model, and there is none.")
    return received


def _around_blocks(model: nn.Module, blocks: set[nn.Module]) -> Iterator[tuple[nn.Module, str, bool]]:
    """Outermost modules with parameters that hold no block: their holder, their name, whether they come before the blocks."""
    before = True
    todo = [(model, name, child) for name, child in reversed(list(model.named_children()))]
    while todo:
        holder, name, child = todo.pop()
        if child in blocks:
            before = False
        elif any(module in blocks for module in child.modules()):
            todo += [(child, one, inner) for one, inner in reversed(list(child.named_children()))]
        elif any(True for _ in child.parameters()):
            yield holder, name, before
