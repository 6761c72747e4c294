"""Wrappers around a user's model: torch.compile's and those of parallel training."""

from __future__ import annotations

import torch
from torch import nn

PARALLEL = ("torch.nn.parallel", "torch.distributed", "deepspeed", "accelerate", "megatron", "fairscale")
"""Packages whose modules wrap a model for parallel training."""
ALONE = "torch.distributed.algorithms._checkpoint"
"""Whose wrappers compute a module again in backward, each rank by itself."""


def is_parallel(module: nn.Module) -> bool:
    """Whether a module is such a wrapper; it may communicate when it is called."""
    home = type(module).__module__
    return home.startswith(PARALLEL) and not home.startswith(ALONE)


def compiled_from(module: nn.Module) -> nn.Module:
    """The module that torch.compile put its wrapper around, or the module itself."""
    if isinstance(module, torch.jit.ScriptModule):  # its `_modules` is not a dictionary
        return module
    inner = module._modules.get("_orig_mod")
    return module if inner is None else inner


def training_flags(model: nn.Module) -> list[tuple[nn.Module, bool]]:
    """Every module with its `training` flag; a frozen TorchScript module has none."""
    return [(module, module.training) for module in model.modules() if hasattr(module, "training")]
