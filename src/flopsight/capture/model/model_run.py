"""What the model is run on: checked inputs, the default loss, one step as a function."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from ...errors import InputError
from ..hooks import internals
from .tensors import stored_bytes, tensors_in, with_tensors

OF_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.Transformer)
"""Layers of torch that take one sequence, or a batch of them in either order."""


@dataclass(frozen=True)
class ModelRun:
    """One way to run a model: its inputs and, for training, its loss and optimizer."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    train: bool = False
    loss: Callable[[Any], torch.Tensor] | None = None
    optimizer: torch.optim.Optimizer | None = None
    method: str = "__call__"
    """`generate` runs the model's generation loop instead of one forward."""
    part: str = ""
    """The path of the submodule that is called; empty for the model itself."""
    copied: bool = False
    """Whether model and optimizer are copies that are thrown away afterwards."""

    def forward(self) -> Any:
        """The model's forward, or its generation loop."""
        return self.prepared()()

    def prepared(self) -> Callable[[], Any]:
        """The forward as a call with prepared inputs, so that preparing them is not timed as the model's work."""
        called = self.model.get_submodule(self.part) if self.part else self.model
        call = called if self.method == "__call__" else getattr(called, self.method)
        args, kwargs = self.args, self.kwargs or {}
        if self.train:
            with internals.without_modes():
                args, kwargs = with_tensors((args, kwargs), cut_off)
        return partial(call, *args, **kwargs)

    def loss_of(self, output: Any) -> torch.Tensor:
        """The user's loss, or the default one."""
        loss = self.loss(output) if self.loss is not None else default_loss(output)
        check_loss(loss)
        return loss

    def backward(self, output: Any) -> None:
        """Loss and its gradients."""
        self.loss_of(output).backward()

    def update(self) -> None:
        """The optimizer's step, if there is one."""
        if self.optimizer is not None:
            self.optimizer.step()

    def step(self) -> Any:
        """Everything, once."""
        return self.train_once(self.prepared()) if self.train else self.forward()

    def train_once(self, forward: Callable[[], Any]) -> Any:
        """A training step with a prepared forward."""
        self.model.zero_grad(set_to_none=True)
        output = forward()
        self.backward(output)
        self.update()
        return output

    @property
    def plain_model(self) -> nn.Module:
        """The model itself, without the wrapper that torch.compile puts around it."""
        inner = getattr(self.model, "_orig_mod", self.model)
        return inner if isinstance(inner, nn.Module) else self.model

    @property
    def compiled(self) -> bool:
        """Whether torch.compile runs the model as one piece."""
        return self.plain_model is not self.model or getattr(self.model, "_compiled_call_impl", None) is not None

    @property
    def device(self) -> torch.device:
        """Where the model's first parameter, or else its first input, is."""
        found: torch.Tensor | None = next(iter(self.model.parameters()), None)
        if found is None:
            found = next(iter(self.tensors), None)
        return found.device if found is not None else torch.device("cpu")

    @property
    def without_data(self) -> bool:
        """Whether it would run on FakeTensors, which compute nothing."""
        if internals.tracing_shapes():
            return True
        return any(isinstance(tensor, internals.FakeTensor) for tensor in (*self.model.parameters(), *self.tensors))

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the inputs."""
        return tensors_in((self.args, self.kwargs or {}))


def make_run(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    input_shape: Sequence[int] | None = None,
    *,
    train: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    method: str = "__call__",
) -> ModelRun:
    """Check what a user handed in and make it a run."""
    if not isinstance(model, nn.Module):
        raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
    positional = _positional(args)
    if input_shape is not None:
        if positional:
            raise InputError("Give either input_shape or args, not both; keyword arguments may stand beside either.")
        positional = (random_input(model, input_shape),)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError(f"kwargs must be a dictionary, not {type(kwargs).__name__}.")
    run = ModelRun(model, positional, kwargs, train, loss, optimizer, method)
    if run.loss is not None and not callable(run.loss):
        raise InputError(f"loss must be a function of the model's output, not {type(run.loss).__name__}.")
    if run.optimizer is not None:
        _check_optimizer(run)
    if not run.train and (run.loss is not None or run.optimizer is not None):
        raise InputError("A loss or an optimizer is for a training step: add train=True, or leave it out.")
    return run


def _positional(args: Any) -> tuple[Any, ...]:
    """Positional arguments as a user hands them in: a list or tuple of them, one tensor, or None."""
    if args is None:
        return ()
    if isinstance(args, torch.Tensor):
        return (args,)
    if isinstance(args, list | tuple):
        return tuple(args)
    raise InputError(
        f"args must be a tuple of positional arguments, not {type(args).__name__}. Did you mean args=(x,)?"
    )


def cut_off(tensor: torch.Tensor) -> torch.Tensor:
    """An input apart from the graph that made it: our backward ends here and leaves its gradient alone."""
    if not tensor.requires_grad:
        return tensor
    leaf = tensor.detach().requires_grad_()
    return leaf if tensor.is_leaf else leaf.clone()  # a forward may write into what is not a leaf


def random_input(model: nn.Module, shape: Sequence[int]) -> torch.Tensor:
    """A random tensor of a shape, on the model's device and in its dtype; no random generator of the process moves."""
    try:
        sizes = tuple(int(size) for size in shape)
    except (TypeError, ValueError):
        raise InputError(f"input_shape must be a sequence of integers, not {shape!r}.") from None
    if not sizes or min(sizes) < 0:
        raise InputError(f"input_shape must name at least one dimension, none negative, not {tuple(shape)!r}.")
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    device = torch.get_default_device() if parameter is None else parameter.device
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    if device.type == "meta":
        return torch.empty(sizes, device=device, dtype=dtype)
    drawn = torch.randn(sizes, generator=torch.Generator("cpu"), device="cpu", dtype=torch.float32)
    return drawn.to(device=device, dtype=dtype)  # drawn on the host: not every device has generators to spare


def default_loss(output: Any) -> torch.Tensor:
    """`output.loss`, else the scalar outputs, else all floating outputs; several are summed."""
    found = own_losses(output) or _with_gradient(output)
    if not found:
        _check_gradients()
        raise InputError(
            "The model's output has no gradient, so there is nothing to train: no floating-point output depends on a "
            "parameter that requires one. Pass loss=..., or leave out train=True."
        )
    if len(found) > 1:
        return torch.stack([tensor.sum() for tensor in found]).sum()
    return found[0] if found[0].numel() == 1 else found[0].sum()  # one element begins a backward in any shape


def own_losses(output: Any) -> list[torch.Tensor]:
    """The losses that a model's output brings: `output.loss`, else its scalars; empty if there is neither."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return [loss]
    return [tensor for tensor in _with_gradient(output) if tensor.numel() == 1]


def _with_gradient(output: Any) -> list[torch.Tensor]:
    return [tensor for tensor in tensors_in(output) if tensor.is_floating_point() and tensor.requires_grad]


def check_loss(loss: Any) -> None:
    """A loss is one number with a gradient."""
    if not isinstance(loss, torch.Tensor):
        raise InputError(f"The loss must be a tensor, but loss(output) returned {type(loss).__name__}.")
    if loss.numel() != 1:
        raise InputError(
            f"The loss must be a single number, but loss(output) has shape {list(loss.shape)}. Reduce it: .mean()."
        )
    if not loss.requires_grad:
        _check_gradients()
        raise InputError("The loss does not depend on any parameter that requires a gradient, so there is no backward.")


def _check_gradients() -> None:
    if not torch.is_grad_enabled():
        raise InputError(
            "train=True needs gradients, which torch.no_grad() or inference_mode() switches off around it."
        )


def _check_optimizer(run: ModelRun) -> None:
    optimizer = run.optimizer
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}.")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(
            f"{type(optimizer).__name__} runs the model itself, through a closure that only your loop has: "
            f"profile it there, with flopsight.step_profiler."
        )
    own = {id(parameter) for parameter in run.model.parameters()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if held and not any(id(parameter) in own for parameter in held):
        raise InputError("The optimizer holds none of the model's parameters: it was made for another model.")


def batch_size_of(run: ModelRun) -> int | None:
    """The first dimension of the first input that has one, unless torch keeps the samples elsewhere."""
    first = next((tensor for tensor in run.tensors if tensor.dim() > 0), None)
    if first is None:
        return None
    model = run.plain_model
    if any(isinstance(value, PackedSequence) for value in run.args[:1]):
        lengths = run.args[0].batch_sizes  # how many sequences are in each step; the first step has all
        with internals.without_modes():
            return int(lengths[0]) if type(lengths) is torch.Tensor and lengths.device.type == "cpu" else None
    if isinstance(model, OF_SEQUENCES):
        return first.size(0 if model.batch_first else 1) if first.dim() == 3 else 1
    return first.size(0)


def tokens_of(run: ModelRun) -> int | None:
    """Elements of the token ids among the inputs: the one of that name, or the first matrix of integers."""
    named = (run.kwargs or {}).get("input_ids")
    if isinstance(named, torch.Tensor):
        return named.numel()
    return next((t.numel() for t in run.tensors if t.dim() == 2 and t.dtype in (torch.int64, torch.int32)), None)


COPIES = 3
SMALL_INPUTS = 64 << 20
"""Bytes of inputs that could stay in a cache from one run to the next."""


def rotated(run: ModelRun) -> list[ModelRun]:
    """The same run on equal inputs in other memory, to be taken in turn: real inputs are not in the cache."""
    tensors = run.tensors
    if not tensors or sum(map(stored_bytes, tensors)) > SMALL_INPUTS or run.method != "__call__":
        return [run]
    return [
        run,
        *(
            replace(run, args=with_tensors(run.args, _copied), kwargs=with_tensors(run.kwargs, _copied))
            for _ in range(COPIES - 1)
        ),
    ]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A plain tensor in other memory; any other is shared."""
    if type(tensor) is torch.Tensor and tensor.is_leaf:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return tensor


def copy_of(run: ModelRun) -> ModelRun:
    """The same run on a copy, data included; the copied optimizer steps the copied parameters."""
    try:
        model, optimizer = copy.deepcopy((run.model, run.optimizer))
    except Exception as problem:
        raise InputError(
            f"{type(run.model).__name__} cannot be copied ({type(problem).__name__}: {problem}). "
            f'Profile the model itself, on="real": it is put back as it was.'
        ) from problem
    return replace(run, model=model, optimizer=optimizer, copied=True)
