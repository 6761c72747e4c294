"""What a profiler must leave alone: snapshots of the process and of a model, compared before and after."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as module_internals

from flopsight.capture.hooks.internals import top_saved_hooks

optimizer_internals = import_module("torch.optim.optimizer")
PATCHABLE = (torch, torch.nn.functional, torch.Tensor)
CHANGED_BY_TORCH = {"manual_seed"}  # importing torch._dynamo wraps it
MODULE_HOOKS = [name for name in vars(nn.Module()) if "hook" in name]
GLOBAL_HOOKS = [
    name for name, value in vars(module_internals).items() if name.startswith("_global_") and hasattr(value, "__len__")
]


def process_state() -> dict:
    """Everything global that somebody who counts could have changed."""
    state = {
        "nn.Module.__call__": nn.Module.__call__,
        "nn.Module.__getattr__": nn.Module.__getattr__,
        "nn.Module.__setattr__": nn.Module.__setattr__,
        "torch.Tensor.backward": torch.Tensor.backward,
        "torch.autograd.backward": torch.autograd.backward,
        "optimizer hooks": (
            len(optimizer_internals._global_optimizer_pre_hooks),
            len(optimizer_internals._global_optimizer_post_hooks),
        ),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "in a dispatch mode": torch.utils._python_dispatch.is_in_torch_dispatch_mode(),
        "function modes": torch._C._len_torch_function_stack(),
        "saved tensor hooks": top_saved_hooks(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic, warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "threads": torch.get_num_threads(),
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "sys.argv": list(sys.argv),
    }
    for name in GLOBAL_HOOKS:
        state[name] = len(getattr(module_internals, name))
    for home in PATCHABLE:
        for name, value in list(vars(home).items()):
            if callable(value) and not isinstance(value, type) and name not in CHANGED_BY_TORCH:
                state[f"{home.__name__}.{name}"] = value
    return state


def model_state(model: nn.Module) -> dict:
    """Everything about a model that a run may not change."""
    state: dict = {
        "state_dict": {name: tensor.detach().clone() for name, tensor in model.state_dict(keep_vars=True).items()}
    }
    for path, module in model.named_modules(remove_duplicate=False):
        state[f"{path}: training"] = module.training
        state[f"{path}: attributes"] = sorted([*vars(module), *module._modules])
        state[f"{path}: forward"] = getattr(module.forward, "__func__", module.forward)
        for name in MODULE_HOOKS:
            hooks = getattr(module, name)
            state[f"{path}: {name}"] = list(hooks) if hasattr(hooks, "__len__") else hooks
    for path, parameter in model.named_parameters(remove_duplicate=False):
        state[f"{path}: tensor"] = id(parameter)
        state[f"{path}: requires_grad"] = parameter.requires_grad
        state[f"{path}: gradient"] = None if parameter.grad is None else parameter.grad.detach().clone()
        state[f"{path}: hooks"] = list(parameter._backward_hooks or ())
    return state


def random_state() -> dict:
    """Where each random generator stands."""
    return {
        "torch's generator": torch.get_rng_state(),
        "numpy's generator": np.random.get_state()[1:3],
        "Python's generator": random.getstate(),
    }


def differences(before: dict, after: dict) -> list[str]:
    """The names of what is not as it was."""
    return sorted(name for name in before if not _same(before[name], after.get(name)))


@contextmanager
def no_trace(model: nn.Module) -> Iterator[None]:
    """Hold that a block leaves the model, the random generators and the process as they were, also when it raises."""
    before = model_state(model) | random_state() | process_state()
    try:
        yield
    finally:
        changed = differences(before, model_state(model) | random_state() | process_state())
        assert not changed, f"left behind: {', '.join(changed)}"


def _same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.is_meta or b.is_meta:
            return a.is_meta and b.is_meta and a.shape == b.shape
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or a == b
