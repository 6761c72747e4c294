"""Tensor and expert parallelism by a plan: which layers of a model are divided over ranks, and in which style."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..errors import InputError, did_you_mean, does_not_divide

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Plan = Mapping[str, Any]
COLUMNS, ROWS = "colwise", "rowwise"
OF_LAYERS = {
    COLUMNS: (COLUMNS, False),
    ROWS: (ROWS, False),
    "colwise_gather_output": (COLUMNS, True),
    "colwise_rep": (COLUMNS, True),
    "rowwise_split_input": (ROWS, True),
    "rowwise_rep": (ROWS, True),
    "embedding_rowwise": (ROWS, True),
    "embedding_colwise": (COLUMNS, True),
}
"""Styles of one layer: what is divided, and whether the rest of the model sees whole tensors on both sides of it."""
ALONG_SEQUENCE, WHOLE = "sequence_parallel", "replicate"
LIBRARY = "transformers.distributed.parallel_utils"
"""Where transformers registers its styles; those of experts and of several layers at once are its own."""
PLAN = 'model._tp_plan = {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}'
TRANSPOSED = "Conv1D"
"""The class in transformers of a linear layer whose weight is stored the other way round."""
FUSED_PLAN = {"attn.c_attn": "colwise", "attn.c_proj": "rowwise", "mlp.c_fc": "colwise", "mlp.c_proj": "rowwise"}
"""How the layers of GPT-2's blocks are divided: by heads, and by the columns of the feed-forward part."""
WEIGHTS, EXCHANGE = "grouped_gemm", "ep_dispatch_experts"
"""transformers' styles: weights that hold one expert after the other, and the module that sends tokens to them."""


def divide_products(model: nn.Module, mesh: DeviceMesh, blocks: Mapping[str, nn.Module], plan: Plan | None) -> None:
    """Divide what a plan names over the ranks of a mesh: the user's plan everywhere, the model's own inside the blocks.

    So embedding, norms and head stay whole unless a user's plan says otherwise.
    """
    own = getattr(model, "_tp_plan", None) if plan is None else plan
    layers = list(_fused(blocks, mesh.size())) if plan is None else []
    if isinstance(own, Mapping):
        layers += planned(model, own, tuple(blocks) if plan is None else None)
    if not layers:
        raise _nothing_planned(mesh.size(), plan)
    check_heads(model, mesh.size(), {path: style for path, _, _, style in layers})
    for path, module, parameter, style in layers:
        _apply(model, mesh, path, module, parameter, style)


def planned(
    model: nn.Module, plan: Plan, inside: tuple[str, ...] | None = None
) -> Iterator[tuple[str, nn.Module, str | None, Any]]:
    """Every parameter and module that a plan names: path, module, the parameter's name or None, style.

    transformers writes plans as `{"layers.*.mlp.up_proj": "colwise"}`; a star stands for one name. `inside` are the
    beginnings of the paths that matter; None: all.
    """
    patterns = [(re.compile(re.escape(name).replace(r"\*", "[^.]+")), style) for name, style in plan.items()]

    def style_of(name: str) -> Any:
        return next((style for pattern, style in patterns if pattern.fullmatch(name)), None)

    for path, module in list(model.named_modules()):
        if inside is not None and not path.startswith(inside):
            continue
        name = without_wrappers(path)
        for parameter in list(module._parameters):
            style = style_of(f"{name}.{parameter}")
            if style is not None:
                yield path, module, parameter, style
        style = style_of(name)
        if style is not None:
            yield path, module, None, style


def without_wrappers(name: str) -> str:
    """The name that a parameter had before the model was divided."""
    return name.removeprefix("module.").replace("_checkpoint_wrapped_module.", "")


def library_style(name: str) -> Any:
    """A style of transformers by its name; None if this release does not have it, or has another kind of styles."""
    registered: Any = getattr(sys.modules.get(LIBRARY), "ALL_PARALLEL_STYLES", None)
    style = registered[name] if registered is not None and name in registered else None
    return style if hasattr(style, "shard_param") and hasattr(style, "install_forward") else None


def check_heads(model: nn.Module, ways: int, styles: Mapping[str, Any]) -> None:
    """Refuse a number of ranks that does not divide a transformer's heads, if a plan divides them."""
    if not any(path.endswith((".q_proj", ".k_proj")) and style == COLUMNS for path, style in styles.items()):
        return
    config = getattr(getattr(model, "config", None), "get_text_config", lambda: None)()
    named = (("num_attention_heads", "attention heads"), ("num_key_value_heads", "key-value heads"))
    known = {what: getattr(config, field, None) for field, what in named}
    numbers = {what: heads for what, heads in known.items() if isinstance(heads, int)}
    for what, heads in numbers.items():
        if heads % ways:
            both = gcd(*numbers.values())
            raise does_not_divide("tp", ways, both, f"the {heads} {what} of this model")


def _fused(blocks: Mapping[str, nn.Module], ways: int) -> Iterator[tuple[str, nn.Module, str | None, Any]]:
    for path, block in blocks.items():
        inner = getattr(block, "_checkpoint_wrapped_module", block)
        plan = _fused_plan(inner)
        if plan:
            _untransposed(inner, ways)
        for name, style in plan.items():
            yield f"{path}.{name}", inner.get_submodule(name), None, style


def _apply(model: nn.Module, mesh: DeviceMesh, path: str, module: nn.Module, parameter: str | None, style: Any) -> None:
    from torch.distributed.tensor.parallel import parallelize_module

    if style == WHOLE:
        return
    made = _torch_style(mesh, path, module, style) if parameter is None else None
    if made is not None:
        parallelize_module(module, mesh, made)
        return
    known = library_style(style) if isinstance(style, str) else None
    if known is None:
        raise _unknown(path, module, style)
    for name in [parameter] if parameter is not None else list(module._parameters):
        if parameter is not None or not hasattr(module._parameters[name], "device_mesh"):
            known.shard_param(module, name, mesh)
            _check_even(f"{path}.{name}", module._parameters[name], mesh.size())
    if parameter is None:
        if style == "mla_kv_a_proj":  # it asks for the part of the keys that turns with the position
            config: Any = getattr(model, "config", None)
            module.config = config.get_text_config()
        known.install_forward(module, mesh)


def _torch_style(mesh: DeviceMesh, path: str, module: nn.Module, style: Any) -> Any:
    """Torch's own style object, or the one for a linear layer or an embedding by its name; None: there is none."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel

    if isinstance(style, ParallelStyle):
        return style
    if style == ALONG_SEQUENCE:
        return SequenceParallel()
    if style not in OF_LAYERS or not isinstance(module, nn.Linear | nn.Embedding):
        return None
    divided, whole = OF_LAYERS[style]
    sizes = module.weight.shape if isinstance(module, nn.Linear) else module.weight.shape[::-1]
    size = sizes[0] if divided == COLUMNS else sizes[1]
    if size % mesh.size():
        raise InputError(f"tp={mesh.size()} does not divide {path}: {size} is not a multiple of {mesh.size()}.")
    if divided == COLUMNS:
        return ColwiseParallel(output_layouts=Replicate() if whole else None)
    return RowwiseParallel(input_layouts=Replicate() if whole else None)


def _check_even(path: str, parameter: Any, ways: int) -> None:
    local: Callable[[], Any] | None = getattr(parameter, "to_local", None)
    divided = local is not None and any(not placement.is_replicate() for placement in parameter.placements)
    if local is not None and divided and local().numel() * ways != parameter.numel():
        raise InputError(f"tp={ways} does not divide {path}, which is {tuple(parameter.shape)}; take one that does.")


def _nothing_planned(ways: int, plan: Plan | None) -> InputError:
    if plan is not None:
        return InputError(
            f"The plan for tp={ways} names no layer of this model: {', '.join(map(str, plan)) or 'none'}."
        )
    return InputError(
        f"tp={ways} needs a plan that says which layers are divided, and this model brings none. "
        f"Give one, tp_plan={{...}} (--tp-plan 'layers.*.up=colwise,layers.*.down=rowwise'), or set it: {PLAN}."
    )


def _unknown(path: str, module: nn.Module, style: Any) -> InputError:
    known = (*OF_LAYERS, ALONG_SEQUENCE, WHOLE)
    hint = did_you_mean(str(style), known) if style not in known else ""
    return InputError(
        f"The tensor-parallel plan of this model divides {path} ({type(module).__name__}) as {style!r}.{hint} torch can "
        f"divide nn.Linear and nn.Embedding as {', '.join(known)}; other styles are those of transformers 5.21 or newer: "
        f"give a plan of your own, tp_plan={{...}} (--tp-plan)."
    )


# -- GPT-2's layers: queries, keys and values in one product, and weights that are stored transposed


def _fused_plan(block: nn.Module) -> dict[str, str]:
    """The plan for a block that is made like GPT-2's; empty for any other."""
    layers = {path: module for path, module in block.named_modules() if type(module).__name__ == TRANSPOSED}
    return FUSED_PLAN if set(layers) == set(FUSED_PLAN) and hasattr(block.get_submodule("attn"), "split_size") else {}


def _untransposed(block: nn.Module, ways: int) -> None:
    """Put linear layers of the same size in the places of a block's transposed ones, and let attention split a part.

    A rank has the queries, keys and values of its heads side by side, as Megatron stores them; without data there is
    nothing to reorder.
    """
    for path in FUSED_PLAN:
        block.set_submodule(path, _linear(block.get_submodule(path)))
    attention: Any = block.get_submodule("attn")
    if attention.split_size % ways:
        raise InputError(
            f"tp={ways} does not divide the {attention.split_size} columns of queries; take one that does."
        )
    attention.split_size //= ways


def _linear(layer: Any) -> nn.Linear:
    inputs, outputs = layer.weight.shape
    made = nn.Linear(inputs, outputs, device="meta", dtype=layer.weight.dtype)
    made.weight.requires_grad_(layer.weight.requires_grad)
    made.bias = nn.Parameter(torch.empty_like(layer.bias), requires_grad=layer.bias.requires_grad)
    return made.train(layer.training)


# -- expert parallelism: each rank has some experts, and tokens are sent to those they chose


def spread_experts(model: nn.Module, mesh: DeviceMesh) -> list[nn.Module]:
    """Keep this rank's experts, and send tokens to the others as transformers does; returns the modules of experts.

    Every rank has inputs of its own, so that the tokens of all of them are exchanged.
    """
    plan: Any = getattr(model, "_ep_plan", None)
    entries = list(planned(model, plan)) if isinstance(plan, Mapping) else []
    if not entries:
        raise InputError(
            f"ep={mesh.size()} divides experts by a model's own plan (transformers' `_ep_plan`), and this model brings none; "
            f"leave ep out."
        )
    found = []
    for path, module, parameter, name in entries:
        style = library_style(name)
        if style is None or name not in (WEIGHTS, EXCHANGE):
            raise InputError(
                f"The expert-parallel plan of this model divides {path} ({type(module).__name__}) as {name!r}, which a dry "
                f"run does not build: it builds {WEIGHTS!r} and {EXCHANGE!r} of transformers 5.21 or newer. Leave ep out."
            )
        if parameter is None:
            style.install_forward(module, mesh)
            found.append(module)
        else:
            weights: Any = module._parameters[parameter]
            if weights.shape[0] % mesh.size():
                experts = weights.shape[0]
                raise does_not_divide("ep", mesh.size(), experts, f"the {experts} experts of this model")
            style.shard_param(module, parameter, mesh)
    return found
