"""What DeepSpeed does to a model that it trains: hooks that fetch parameters, and parameters of which a rank keeps a part."""

from __future__ import annotations

from typing import Any

from torch import nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def fetches(hook: Any) -> bool:
    """Whether a hook is DeepSpeed's: it moves parameters, starts timers, and adds nothing to what a module computes."""
    return str(getattr(hook, "__module__", "")).startswith("deepspeed.")


def without_fetching(twin: nn.Module) -> nn.Module:
    """Remove DeepSpeed's hooks from a twin: it has no data to fetch, and the engine must not count its forward."""
    for module in twin.modules():
        for kind in HOOKS:
            hooks = getattr(module, kind, None) or {}
            for key in [key for key, hook in hooks.items() if fetches(hook)]:
                del hooks[key]
    return twin


def whole_shape(parameter: Any) -> tuple[int, ...]:
    """The shape of the whole tensor, also if this rank holds a part of it and the tensor itself is empty."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


def elements(parameter: Any) -> tuple[int, int] | None:
    """How many elements this rank keeps between steps, and how many there are; None for what ZeRO has not split."""
    if not hasattr(parameter, "ds_numel"):
        return None
    shard: Any = getattr(parameter, "ds_tensor", None)
    if shard is None or getattr(parameter, "ds_persist", False):  # a small one persists: gathered once, and kept
        return parameter.ds_numel, parameter.ds_numel
    return shard.numel(), parameter.ds_numel
