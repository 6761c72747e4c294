"""The repeated blocks of a model: what FSDP shards one by one, and what stages of a pipeline are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import nn


def without_cache(model: nn.Module) -> None:
    """Let no part of a model of transformers keep its keys and values."""
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        if getattr(config, "use_cache", False):
            config.use_cache = False


def repeated_blocks(model: nn.Module) -> dict[str, nn.Module]:
    """The blocks by name, in the model's order: outermost members of a list whose class stands there at least twice.

    Layers of torch.nn themselves are too small to be blocks, as in `nn.Sequential(nn.Linear(...), nn.ReLU(), ...)`. If no
    class of the model's own stands there twice, each nn.Sequential that does is a block; if nothing does, as in a model
    of one block, the members of an nn.ModuleList are the blocks.
    """
    lists = nn.ModuleList | nn.Sequential
    return (
        _members(model, 2, lists, _is_block)
        or _members(model, 2, lists, _is_sequence)
        or _members(model, 1, nn.ModuleList, _is_block)
    )


def _members(model: nn.Module, least: int, lists: Any, is_block: Callable[[nn.Module], bool]) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {}
    todo = [("", model)]
    while todo:
        path, module = todo.pop()
        inside = []
        kinds = Counter(type(child) for child in module.children())
        for name, child in module.named_children():
            where = f"{path}.{name}" if path else name
            if isinstance(module, lists) and kinds[type(child)] >= least and is_block(child):
                found[where] = child
            else:
                inside.append((where, child))
        todo += reversed(inside)
    order = {name: place for place, (name, _module) in enumerate(model.named_modules())}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))


def _is_block(module: nn.Module) -> bool:
    """Whether a module has parameters and a class of its own, or is one of torch's transformer layers."""
    own = not type(module).__module__.startswith("torch.nn.modules") or isinstance(
        module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    )
    return own and _has_parameters(module)


def _is_sequence(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and _has_parameters(module)


def _has_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())
