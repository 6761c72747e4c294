"""Meta tensors that answer as if they were on the target device.

Code asks a tensor for its device, branches on the answer and makes new tensors there. What torch decides below Python,
where a meta tensor cannot pass for another, is decided here as the target device would.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from types import EllipsisType
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from ..hooks import internals
from ..hooks.patches import Call, inside
from . import moves
from . import recurrent_kernels as recurrent
from .known_values import Unknowable, value_of

Tensor = torch.Tensor
aten = torch.ops.aten

LISTS = (list, tuple, range)
"""What torch makes a tensor of if it stands in an index."""


class TargetDevice(TorchFunctionMode):
    """Meta tensors look as if they were on `device`."""

    def __init__(self, device: torch.device, value: Callable[[Tensor], Tensor] = value_of) -> None:
        super().__init__()
        self.device = device
        self.value = value

    def in_backward(self, call: Call) -> Call:
        """Code of the user's that runs in a backward, which leaves function modes behind, asks for devices too."""

        def disguised(*args: Any, **kwargs: Any) -> Any:
            if internals.graph_task() == -1 or internals.function_modes():
                return call(*args, **kwargs)
            with self:
                return call(*args, **kwargs)

        return disguised

    def in_saved_hooks(self, pack: Call, unpack: Call) -> internals.Hooks:
        """Hooks for saved tensors ask for devices too, and torch calls them inside an op, below every function mode."""
        return wraps(pack)(inside(lambda: self)(pack)), wraps(unpack)(inside(lambda: self)(unpack))

    def unnoticed(self, ask: Call) -> Call:
        """The question whether operands have functions of their own, which decides about fused attention: we are none."""

        def overridden(operands: Any) -> Any:
            if internals.function_modes() > 1:
                return ask(operands)
            own = (getattr(type(operand), "__torch_function__", None) for operand in operands)
            return any(function not in (None, *PLAIN_FUNCTIONS) for function in own)

        return overridden

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        instead = ANSWERS.get(func)
        return func(*args, **(kwargs or {})) if instead is None else instead(self, func, args, kwargs or {})


def _device(mode: TargetDevice, func: Any, args: Any, _kwargs: Any) -> torch.device:
    found: torch.device = func(*args)
    return mode.device if found.type == "meta" else found


def _is_on(kind: str) -> Callable[..., bool]:
    return lambda mode, _func, args, _kwargs: _device(mode, DEVICE, args, None).type == kind


def _index(mode: TargetDevice, _func: Any, args: Any, _kwargs: Any) -> int:
    device = _device(mode, DEVICE, args, None)
    return -1 if device.index is None else device.index


def _constant(mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> Tensor:
    """A tensor of numbers that are there in Python: made on the CPU, or the numbers would be lost."""
    if isinstance(args[0], Tensor):
        if func is torch.as_tensor:  # without a copy if nothing changes
            return moves.to(mode, Tensor.to, args, kwargs)
        return func(*args, **kwargs)  # type: ignore[no-any-return]
    made: Tensor = func(_numbers(args[0]), *args[1:], **{**kwargs, "device": "cpu"})
    return made


def _new_constant(_mode: TargetDevice, _func: Any, args: Any, kwargs: Any) -> Tensor:
    tensor, data = args
    return torch.tensor(_numbers(data), **{"dtype": tensor.dtype, **kwargs, "device": "cpu"})


def _numbers(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_numbers(item) for item in data]
    return data.tolist() if isinstance(data, Tensor) else data


def _text(mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> str:
    """The text of a number, which modules use as a key."""
    try:
        with internals.without_modes():
            return format(mode.value(args[0]).item() if args[0].dim() == 0 else args[0], *args[1:])
    except Unknowable:
        text: str = func(*args, **kwargs)
        return text


def _data(mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> Any:
    """What torch reads from memory, past every op: the value, and not what the memory of a twin happens to hold."""
    with internals.without_modes():
        try:
            value = mode.value(args[0]).clone()
        except Unknowable:
            raise Unknowable(f"Tensor.{func.__name__} needs values, which a model on meta does not have.") from None
        return func(value, *args[1:], **kwargs)


def _select(_mode: TargetDevice, func: Any, args: Any, _kwargs: Any) -> Tensor:
    tensor, index = args
    selected: Tensor = func(tensor, _known_index(index))
    return selected


def _known_index(index: Any) -> Any:
    """Numbers in an index as tensors on the CPU: torch would make them where the tensor is, and lose them."""
    if isinstance(index, tuple):
        return tuple(map(_known_part, index))
    if isinstance(index, list) and not all(isinstance(item, int) for item in index):
        return list(map(_known_part, index))  # torch takes it for a tuple
    return _known_part(index)


def _known_part(part: Any) -> Any:
    return torch.tensor(part, device="cpu") if isinstance(part, LISTS) and _all_numbers(part) else part


def _all_numbers(part: Any) -> bool:
    inside = (_all_numbers(item) if isinstance(item, LISTS) else isinstance(item, int) for item in part)
    return len(part) > 0 and all(inside)


def _assign(_mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> None:
    """A number written into a slice: a fill, where meta tensors would copy a tensor made for it."""
    tensor, index, value = args
    index = _known_index(index)
    parts = index if isinstance(index, tuple) else (index,)
    if not isinstance(value, bool | int | float):
        func(tensor, index, value, **kwargs)
    elif all(isinstance(part, int | slice | EllipsisType | None) and not isinstance(part, bool) for part in parts):
        tensor[index].fill_(torch.tensor(value, dtype=tensor.dtype))
    else:
        func(tensor, index, torch.tensor(value, dtype=tensor.dtype))


def _group_norm(mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> Tensor:
    """On the CPU, channels that come last may stay there."""
    if mode.device.type != "cpu":
        return func(*args, **kwargs)  # type: ignore[no-any-return]
    return group_norm_on_cpu(*args, **{"data" if key == "input" else key: value for key, value in kwargs.items()})


def _one_hot(mode: TargetDevice, _func: Any, args: Any, kwargs: Any) -> Tensor:
    """Ones scattered over zeros, where meta tensors would compare every class."""

    def scattered(tensor: Tensor, num_classes: int = -1) -> Tensor:
        highest = torch.aminmax(tensor)[1] if mode.device.type == "cpu" else None
        classes = num_classes if num_classes >= 0 else 1 + int(tensor.max() if highest is None else highest)
        zeros = torch.zeros((*tensor.shape, classes), dtype=tensor.dtype, device=mode.device)
        return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)

    return scattered(*args, **kwargs)


def _recurrent(kind: str) -> Callable[..., Any]:
    def run(mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> Any:
        if mode.device.type == "cuda" and torch.backends.cudnn.enabled:
            return recurrent.network_on_cuda(kind, *args)
        return recurrent.layers_on_cpu(kind, *args) if mode.device.type == "cpu" else func(*args, **kwargs)

    return run


def _dropout(mode: TargetDevice, func: Any, args: Any, kwargs: Any) -> Tensor:
    """A GPU draws its mask and applies it in one op; so does a model on meta, which stands for a recent GPU."""

    def fused(data: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or inplace or not 0 < p < 1 or not data.numel():
            return func(data, p, training, *([inplace] if inplace else []))  # type: ignore[no-any-return]
        return torch.native_dropout(data, p, train=True)[0]

    if mode.device.type in ("cuda", "meta"):
        return fused(*args, **{{"input": "data", "train": "training"}.get(key, key): v for key, v in kwargs.items()})
    made: Tensor = func(*args, **kwargs)
    return made


PLAIN_FUNCTIONS = (Tensor.__torch_function__, torch.nn.Parameter.__torch_function__)
DEVICE = Tensor.device.__get__
ANSWERS: dict[Any, Callable[..., Any]] = {
    DEVICE: _device,
    Tensor.is_cuda.__get__: _is_on("cuda"),  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: _is_on("cpu"),  # type: ignore[attr-defined]
    Tensor.is_meta.__get__: _is_on("meta"),  # type: ignore[attr-defined]
    Tensor.get_device: _index,
    Tensor.to: moves.to,
    Tensor.cpu: moves.to_device("cpu"),
    Tensor.cuda: moves.to_device("cuda"),
    Tensor.type: moves.to_type,
    torch.tensor: _constant,
    torch.as_tensor: _constant,
    Tensor.new_tensor: _new_constant,
    Tensor.__format__: _text,
    Tensor.tolist: _data,
    Tensor.numpy: _data,
    Tensor.__array__: _data,
    Tensor.__getitem__: _select,
    Tensor.__setitem__: _assign,
    **{getattr(torch, kind): _recurrent(kind) for kind in recurrent.NETWORKS},
    torch.dropout: _dropout,
    torch.nn.functional.dropout: _dropout,
    torch.nn.functional.one_hot: _one_hot,
    torch.group_norm: _group_norm,
    torch.nn.functional.group_norm: _group_norm,
}


def group_norm_on_cpu(
    data: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05,
    cudnn_enabled: bool = True,  # noqa: ARG001
) -> Tensor:  # fmt: skip
    """What torch does on the CPU; the arguments are those of `torch.group_norm`."""
    if internals.GROUP_NORM_KEEPS_ORDER:
        kept: Tensor = aten.native_group_norm(data, weight, bias, *_sizes(data), num_groups, eps)[0]
        return kept
    order = internals.memory_order(data)
    data = data.contiguous(memory_format=order)
    if order is torch.contiguous_format:
        made: Tensor = aten.native_group_norm(data, weight, bias, *_sizes(data), num_groups, eps)[0]
    else:
        made = _ChannelsLast.apply(data, weight, bias, num_groups, eps)  # type: ignore[no-untyped-call]
    return made


def _sizes(data: Tensor) -> tuple[int, int, int]:
    batch, channels, *rest = data.shape
    return batch, channels, prod(rest)


class _ChannelsLast(torch.autograd.Function):
    """Torch decides by the device whether gradients are brought into plain order, and meta is not the CPU."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float) -> Tensor:
        made, mean, deviation = aten.native_group_norm(data, weight, bias, *_sizes(data), groups, eps)
        ctx.groups = groups
        ctx.save_for_backward(data, weight, mean, deviation)
        first: Tensor = made
        return first

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        data, weight, mean, deviation = ctx.saved_tensors
        grad = grad.contiguous(memory_format=internals.memory_order(data))
        wanted = list(ctx.needs_input_grad[:3])
        made = aten.native_group_norm_backward(
            grad, data, mean, deviation, weight, *_sizes(data), ctx.groups, wanted
        )  # fmt: skip
        return *made, None, None
