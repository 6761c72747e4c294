"""What torch runs around a module's forward."""

from __future__ import annotations

from torch import nn
from torch.nn.modules import module as _module

_FOR_EVERY_MODULE = (
    _module._global_forward_hooks,
    _module._global_forward_pre_hooks,
    _module._global_backward_hooks,
    _module._global_backward_pre_hooks,
)


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of a module runs hooks, its own or those of every module."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or any(_FOR_EVERY_MODULE)
    )
