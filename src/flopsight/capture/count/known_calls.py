"""Calls of torch's own layers: equal calls run equal ops, so the first is watched and the others are noted after it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from ..hooks import internals
from ..model.sites import Site
from ..model.tensors import raw
from .op_calls import Step, Steps
from .tape import Tape

_CONVOLUTION = attrgetter("stride", "padding", "dilation", "groups", "padding_mode")
_TRANSPOSED = attrgetter("stride", "padding", "output_padding", "dilation", "groups", "padding_mode")
_BATCH_NORM = attrgetter("momentum", "eps", "track_running_stats")
_IN_PLACE = attrgetter("inplace")


def _none(_module: nn.Module) -> None:
    return None


SETTINGS: dict[type[nn.Module], Callable[[Any], Any]] = {
    nn.Linear: _none,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _CONVOLUTION),
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), _TRANSPOSED),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _BATCH_NORM),
    nn.LayerNorm: attrgetter("normalized_shape", "eps"),
    nn.RMSNorm: attrgetter("normalized_shape", "eps"),
    nn.GroupNorm: attrgetter("num_groups", "eps"),
    nn.Embedding: attrgetter("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    nn.Dropout: attrgetter("p", "inplace"),
    **dict.fromkeys((nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.Hardsigmoid), _IN_PLACE),
    **dict.fromkeys((nn.Sigmoid, nn.Tanh, nn.Identity), _none),
    nn.GELU: attrgetter("approximate"),
    nn.LeakyReLU: attrgetter("negative_slope", "inplace"),
}
"""Layers whose ops follow from what comes in, from their parameters and from these settings."""
METHODS = {
    layer: frozenset(name for name in dir(layer) if callable(getattr(layer, name))) | {"_compiled_call_impl"}
    for layer in SETTINGS
}
FUNCTIONS = (
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "pad", "batch_norm",
    "layer_norm", "rms_norm", "group_norm", "embedding", "dropout", "relu", "relu6", "silu", "hardswish", "hardsigmoid",
    "gelu", "leaky_relu",
)  # fmt: skip
"""What the layers call in `torch.nn.functional`."""
RUN_BY_CALL = ("forward", "_conv_forward", "_output_padding", "_check_input_dim")
PLAIN = (torch.Tensor, nn.Parameter)
TRAITS = attrgetter("__class__", "shape", "dtype", "layout", "requires_grad")
READS_A_VALUE = "aten._local_scalar_dense"
MOST = 4096
"""Different calls that are kept."""

WATCHED: Any = object()
"""Stands for the ops of a call that has to be watched."""
_learned: dict[Any, Steps] = {}
"""What calls ran, in any recording of this process."""


class KnownCalls:
    """Runs calls of layers. Where anything may change which ops run, a call is watched op by op."""

    def __init__(self, tape: Tape) -> None:
        self.learning: list[Step] | None = None
        """The ops of a call that is met for the first time; None where none are to be noted here."""
        # Memory is followed op by op: nothing is known of it without a look.
        knows = tape.live is None and all(_is_torchs(getattr(F, name)) for name in FUNCTIONS)
        self.layers = frozenset(filter(_as_torch_has_it, SETTINGS if knows else ()))
        """The kinds of modules that it knows the calls of."""
        self._tape = tape

    def run(self, plain: Callable[..., Any], module: nn.Module, given: torch.Tensor, site: Site) -> Any:
        """Make the call; the ops of a call that is known are noted, and not watched. Every line in it costs every call."""
        if (
            type(given) is not torch.Tensor
            or getattr(internals.only_mode(), "known_calls", None) is not self  # or our mode was taken off
            or internals.changes_ops()
            or _runs_more(module)
            or self._saving_runs_more()
        ):
            return plain(module, given)
        key = self._key(module, given)
        steps = _learned.get(key)
        if steps is None:
            return self._learn(key, plain, module, given)
        if steps is WATCHED:
            return plain(module, given)
        with internals.unwatched():
            output = plain(module, given)
        self._tape.ops.repeat(steps, site)
        return output

    def _saving_runs_more(self) -> bool:
        """Whether hooks other than ours run when a tensor is saved for backward."""
        saved = self._tape.saved
        return saved is not None and torch.is_grad_enabled() and not saved.alone

    def _learn(self, key: Any, plain: Callable[..., Any], module: nn.Module, given: torch.Tensor) -> Any:
        outer, self.learning = self.learning, []
        try:
            output = plain(module, given)
            steps = self.learning
        finally:
            self.learning = outer
        if len(_learned) >= MOST:
            _learned.clear()
        tensors = (given, *module._parameters.values(), *module._buffers.values())
        if (
            steps is not None
            and (steps or output is given)  # what a call made without an op was hidden from us
            and all(map(_follows_from_shapes, steps))
            and all(map(_is_plain, tensors))
        ):
            _learned[key] = tuple(steps)
        else:
            _learned[key] = WATCHED
        return output

    def _key(self, module: nn.Module, given: torch.Tensor) -> Any:
        """What decides which ops run."""
        kind = type(module)
        held = (*module._parameters.values(), *module._buffers.values())
        return (
            kind, SETTINGS[kind](module), module.training, raw(given), given.requires_grad, given.is_neg(),
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(), internals.uses_cudnn(),
            *[tensor if tensor is None else TRAITS(tensor) for tensor in held],
        )  # fmt: skip


def _runs_more(module: nn.Module) -> bool:
    """Whether a call runs more than the forward that torch gave the layer."""
    held = vars(module)
    return bool(held["_modules"] or not held.keys().isdisjoint(METHODS[type(module)]) or internals.has_hooks(module))


def _is_plain(tensor: torch.Tensor | None) -> bool:
    """Whether the work on a tensor follows from its shape and type."""
    return tensor is None or (type(tensor) in PLAIN and tensor.layout is torch.strided and not tensor.is_nested)


def _as_torch_has_it(layer: type[nn.Module]) -> bool:
    """Whether the methods of a layer are torch's."""
    return all(_is_torchs(getattr(layer, name)) for name in RUN_BY_CALL if hasattr(layer, name))


def _is_torchs(function: Any) -> bool:
    """Whether a function is torch's own: one that another library put in its place may run anything."""
    home: str = getattr(function, "__globals__", {}).get("__name__", "")
    return isinstance(function, BuiltinFunctionType) or home.startswith("torch.nn.")


def _follows_from_shapes(step: Step) -> bool:
    """Whether an op does the same work on other values of the same shapes."""
    info, call = step
    return info.name != READS_A_VALUE and not info.exchanges and (call is None or not call[-1])
