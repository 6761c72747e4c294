"""What torch knows of an op: schema, tags, kernels, and how releases differ in what they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_map

from ..release import TORCH
from .modes import without_modes

Value = TypeVar("Value")
NormBase = torch.nn.modules.batchnorm._NormBase
"""What batch norms and instance norms have in common: running statistics."""
HigherOrderOperator = torch._ops.HigherOrderOperator
"""Ops that take functions: branches and loops."""
schema: Callable[[Any], Any] = attrgetter("_schema")
"""The arguments and results of an op."""
ATTENTION_ADDS_A_BATCH = TORCH >= (2, 14)
"""Whether scaled_dot_product_attention takes three dimensions as a batch of one, where older ones run single products."""
GROUP_NORM_KEEPS_ORDER = TORCH >= (2, 14)
"""Whether group norm takes its input and its gradient in any memory order; older ones copy both first."""
attention_choice: Callable[..., int] = torch._fused_sdp_choice
"""Which kernel scaled_dot_product_attention would run on these tensors, as a number."""


def register_on_meta(name: str, kernel_of_it: Callable[..., Any]) -> Callable[[], None]:
    """Register a kernel of an op of aten on meta, where autograd would come; gives what takes it back.

    To be done once for all users: torch warns on a second registration.
    """
    library = torch.library.Library("aten", "IMPL")
    library.impl(name, kernel_of_it, "AutogradMeta")
    return library._destroy


def uses_onednn() -> bool:
    """Whether the CPU's convolutions and recurrent layers go to oneDNN."""
    return torch.backends.mkldnn.is_available() and bool(torch._C._get_mkldnn_enabled())


_convolution_backend: Callable[..., Any] = torch._C._select_conv_backend
_CONVOLUTION_BACKENDS: Any = torch._C._ConvBackend  # type: ignore[attr-defined]


def onednn_convolves(data: torch.Tensor, weight: torch.Tensor, settings: Sequence[Any]) -> bool:
    """Whether the CPU's convolution of these goes to oneDNN; `settings` are the arguments from the stride on."""
    stride, padding, dilation, transposed, output_padding, groups = settings
    if data.dim() == 3:  # an image of height 1
        data, weight = data.unsqueeze(2), weight.unsqueeze(2)
        stride, dilation = ([1, *one] for one in (stride, dilation))
        padding, output_padding = ([0, *one] for one in (padding, output_padding))
    with without_modes():
        shapes = [torch.empty((), dtype=one.dtype).expand(one.shape) for one in (data, weight)]
        backend = _convolution_backend(
            *shapes, None, stride, padding, dilation, transposed, output_padding, groups, None
        )
    onednn = int(_CONVOLUTION_BACKENDS.Mkldnn)
    return int(backend) in (onednn, onednn + 1)  # the second, for transposed ones, has no name


def onednn_has_halves(dtype: torch.dtype) -> bool:
    """Whether oneDNN works with a type of half precision on this CPU."""
    ask = {
        torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported,
        torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,
    }.get(dtype)
    return bool(ask is not None and ask())


def python_body(func: Any) -> Callable[..., Any] | None:
    """The Python function behind an op made with torch.library.custom_op, for the device at hand."""
    from torch._library.custom_ops import OPDEFS

    definition = OPDEFS.get(func._schema.name)
    if definition is None:
        return None
    bodies: dict[str | None, Callable[..., Any]] = definition._backend_fns
    return bodies.get(None) or bodies.get("cpu") or definition._init_fn


def op_of_backward(node: Any) -> str | None:
    """The custom op whose registered backward a node of autograd runs; None for any other node."""
    made: str = node._forward_cls.__name__
    if not made.startswith(_GENERATED):
        return None
    inside = node._forward_cls.forward
    variables = dict(zip(inside.__code__.co_freevars, inside.__closure__ or (), strict=True))
    if "op" not in variables:  # it takes lists of tensors, and torch has wrapped it
        return made.removeprefix(_GENERATED)
    name: str = variables["op"].cell_contents._schema.name
    return name.replace("::", ".")


_GENERATED = "GeneratedBackwardFor_"
"""How torch.library begins the name of the function that it makes for a registered backward."""


def kernel(func: Any, *keys: str) -> Callable[..., Any] | None:
    """The first kernel that the op has for one of the dispatch keys; asking for a missing one would crash."""
    for key in keys:
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
            dispatch_key = getattr(torch._C.DispatchKey, key)
            return lambda *args, **kwargs: func._op_dk(dispatch_key, *args, **kwargs)
    return None


_REDUCTION_TAG = getattr(torch.Tag, "reduction", None)  # since 2.10; older ones go by the names below
_REDUCTIONS = frozenset(
    f"aten::{name}"
    for name in (
        "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "linalg_vector_norm", "logsumexp",
        "max", "mean", "min", "nansum", "norm", "prod", "std", "std_mean", "sum", "var", "var_mean",
    )
)  # fmt: skip
_POINTWISE = frozenset(("aten::ldexp", "aten::leaky_relu"))  # tagged since 2.10


def is_pointwise(func: Any) -> bool:
    """Whether each element of the op's result comes from one element of every operand."""
    return torch.Tag.pointwise in func.tags or func._schema.name in _POINTWISE


def is_reduction(func: Any) -> bool:
    """Whether the op makes few elements of many: a sum, a mean, a maximum."""
    return func._schema.name in _REDUCTIONS if _REDUCTION_TAG is None else _REDUCTION_TAG in func.tags


def by_op(named: Mapping[str, Value]) -> dict[Any, Value]:
    """The same table by op instead of by name (`aten.mm.default`), without the ops that this torch does not have."""
    found = {}
    for name, value in named.items():
        namespace, packet, overload = name.split(".")
        op = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
        if op is not None:
            found[op] = value
    return found


def is_composite(func: Any) -> bool:
    """Whether the op is written in terms of other ops."""
    return bool(func._can_decompose())


def stacked(results: Sequence[Any]) -> Any:
    """Equal structures of tensors as one, of the tensors stacked."""
    return tree_map(lambda first, *others: first if first is None else torch.stack([first, *others]), *results)
