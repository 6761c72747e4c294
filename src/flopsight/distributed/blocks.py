"""The repeated blocks of a model: what FSDP shards one by one, and what stages of a pipeline are made of."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn


def repeated_blocks(model: nn.Module) -> dict[str, nn.Module]:
    """The blocks by name, in the model's order: outermost members of a list whose class stands there at least twice.

    Layers of torch.nn themselves are too small to be blocks, as in `nn.Sequential(nn.Linear(...), nn.ReLU(), ...)`. If
    nothing stands there twice, as in a model of one block, the members of an nn.ModuleList are the blocks.
    """
    return _members(model, 2, nn.ModuleList | nn.Sequential) or _members(model, 1, nn.ModuleList)


def _members(model: nn.Module, least: int, lists: Any) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {}
    todo = [("", model)]
    while todo:
        path, module = todo.pop()
        inside = []
        kinds = Counter(type(child) for child in module.children())
        for name, child in module.named_children():
            where = f"{path}.{name}" if path else name
            if isinstance(module, lists) and kinds[type(child)] >= least and _is_block(child):
                found[where] = child
            else:
                inside.append((where, child))
        todo += reversed(inside)
    order = {name: place for place, (name, _module) in enumerate(model.named_modules())}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))


def _is_block(module: nn.Module) -> bool:
    """Whether a module holds parameters and layers of its own."""
    own = not type(module).__module__.startswith("torch.nn.modules") or isinstance(
        module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    )
    return own and any(True for _ in module.parameters())
