"""What torch.compile makes of a model in training, up to its kernels: a graph of forward and one of backward."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.fx import Graph
from torch.utils._pytree import tree_map_only


@dataclass(frozen=True)
class CompiledGraphs:
    """One model, divided by torch's own partitioner as for its default compiler."""

    forward: Graph
    backward: Graph
    returned: int
    """How many of the forward's outputs the model returns; the others are kept for backward."""


class NotTracedError(Exception):
    """A model that torch.compile does not take as one graph."""


def compiled_graphs(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CompiledGraphs:
    """Trace a model without data as torch.compile does, down to where kernels would be made; nothing runs."""
    try:
        fusible_ops()  # without it the graphs say nothing
        return _traced(model, args, kwargs)
    except Exception as problem:  # it may fail in as many ways as there are models and releases of torch
        raise NotTracedError(f"{type(problem).__name__}") from problem


def _traced(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CompiledGraphs:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table
    from torch._subclasses.fake_tensor import FakeTensorMode

    found: list[CompiledGraphs] = []

    def divide(joint: Any, inputs: Any, **options: Any) -> Any:
        forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
        found.append(CompiledGraphs(forward.graph, backward.graph, options["num_fwd_outputs"]))
        return forward, backward

    kernels = aot_autograd(
        fw_compiler=_as_it_is, bw_compiler=_as_it_is, partition_fn=divide, decompositions=select_decomp_table()
    )

    def compiler(graph: Any, inputs: Any) -> Any:
        _choose_attention(graph)
        return kernels(graph, inputs)

    mode = FakeTensorMode()
    # a function of its own, with which what the compiler remembers of it goes: users' own code stays as it was
    own = FunctionType(_call.__code__.replace(co_name="call"), globals())
    copy = deepcopy(model)
    with _silent(), mode:
        args, kwargs = _without_data(copy, args, kwargs)
        torch.compile(own, backend=compiler, fullgraph=True, dynamic=False)(copy, args, kwargs)
    (graphs,) = found
    return graphs


def _call(model: nn.Module, args: Any, kwargs: Any) -> Any:
    return model(*args, **kwargs)


def _as_it_is(graph: Any, _inputs: Any) -> Any:
    return graph


@contextmanager
def _silent() -> Iterator[None]:
    """Without the compiler's remarks on a model."""
    log = logging.getLogger("torch._dynamo")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _without_data(model: nn.Module, args: Any, kwargs: Any) -> Any:
    """Put fake tensors of a CPU in the place of a model's, and of inputs: on meta some losses have no derivative."""
    fakes: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                fake = fakes.setdefault(id(parameter), nn.Parameter(_fake(parameter), parameter.requires_grad))
                module._parameters[name] = fake
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = _fake(buffer)
    return tree_map_only(torch.Tensor, _fake, (args, dict(kwargs)))


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _choose_attention(graph: Any) -> None:
    """Let attention be one kernel, as on a GPU, which a CPU with dropout would not choose."""
    for part in graph.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            if node.target is nn.functional.scaled_dot_product_attention:
                node.target = _attention


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, **_gqa: Any,
) -> Any:  # fmt: skip
    """Fused attention; the mask of its dropout is made again in backward from a seed."""
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, float("-inf"))
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return kernel(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]


def fusible_ops() -> frozenset[Any]:
    """What torch's partitioner takes for work that shares a kernel with its neighbours."""
    from torch._functorch.partitioners import get_default_op_list

    return frozenset(get_default_op_list().fusible_ops)


def is_view_op(target: Callable[..., Any]) -> bool:
    """Whether an op's result shares the memory of its first input."""
    return bool(getattr(target, "is_view", False)) or target is torch.ops.aten._unsafe_view.default
