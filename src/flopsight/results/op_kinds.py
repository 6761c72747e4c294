"""One book of op kinds, for what torch does not say or says otherwise: capture and formulas both read it, without torch.

An op that works in place, `aten.fill_`, is of the kind of its namesake without the underscore.
"""

from __future__ import annotations


def aten(words: str) -> tuple[str, ...]:
    """The full names of ops given as words: `aten("mm bmm")` is `("aten.mm", "aten.bmm")`."""
    return named("aten", words)


def named(namespace: str, words: str) -> tuple[str, ...]:
    """The full names of a namespace's ops given as words."""
    return tuple(f"{namespace}.{word}" for word in words.split())


def out_of_place(op: str) -> str:
    """The name without the underscore that marks an op as in place."""
    return op.removesuffix("_")


NO_WORK = aten("""
    alias _unsafe_view detach detach_ lift lift_fresh empty empty_like empty_strided empty_permuted new_empty
    new_empty_strided set_ resize_ shallow_copy_data_ _reshape_alias sym_size sym_stride sym_numel sym_storage_offset
    sym_is_contiguous size stride storage_offset numel dim is_same_size is_pinned is_contiguous
    requires_grad_ retain_grad record_stream _has_compatible_shallow_copy_type _version
    _assert_async _assert_scalar _local_scalar_dense _fused_sdp_choice _nested_get_values _nested_get_offsets
    is_coalesced _nnz _indices _values crow_indices col_indices values indices _dimI _dimV sparse_dim dense_dim
    unsafe_split unsafe_split_with_sizes unsafe_chunk _conj _neg_view resolve_conj resolve_neg
""")
"""Ops that compute and move nothing, though torch does not call them views."""

QUESTIONS = aten("is_non_overlapping_and_dense is_strides_like_format")
"""Questions about a tensor's layout that torch hands to subclasses like ops, though its dispatcher has none of them."""

SILENT_NAMESPACES = frozenset(("prim", "profiler", "prims_debug"))
"""Namespaces whose ops compute and move nothing."""

MOVED = aten("""
    clone _to_copy copy contiguous where masked_fill masked_scatter tril triu nan_to_num cat stack repeat expand_copy
    constant_pad_nd pixel_shuffle pixel_unshuffle channel_shuffle roll flip logical_not complex conj_physical
    _conj_physical _to_dense view_copy permute_copy view_as_real_copy _reshape_copy
""")
"""Ops that read every input and write every output, and compute nothing; torch tags some of them as pointwise."""

FILLED = aten("""
    copy_ fill zero zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full scalar_tensor
    _efficientzerotensor arange eye
""")
"""Ops that write a tensor without reading what was in it."""

FILLED_TOGETHER = aten("_foreach_copy _foreach_zero")
"""The same over lists of tensors."""

COPIES = frozenset((*MOVED, *FILLED, *FILLED_TOGETHER, *aten("positive real")))
"""Ops that move bytes at most."""

POINTWISE = aten("""
    gelu hardswish rsub silu hardsigmoid leaky_relu elu celu selu mish relu6 hardtanh softplus logit _prelu_kernel
""")
"""Pointwise arithmetic that torch does not tag as such, in place or at all."""

POINTWISE_WITH_NOISE = aten("rrelu_with_noise_functional")
"""The same for ops that return the random numbers they drew as a second output."""

MADE_OF_OPS = frozenset(aten("_transformer_encoder_layer_fwd"))
"""Ops whose kernels are written in other ops, so that running the kernel by hand shows what they do."""

MATRIX_WORDS = ("mm", "matmul", "convolution", "conv", "attention", "linear", "bilinear", "rnn", "dot", "mv", "addr")
"""Words in the name of an op that multiplies matrices."""

_NO_WORK, _POINTWISE = frozenset((*NO_WORK, *QUESTIONS)), frozenset((*POINTWISE, *POINTWISE_WITH_NOISE))


def listed_kind(op: str) -> str | None:
    """The kind that the book gives an op; None if torch's own tags say it."""
    if op in _NO_WORK or op.split(".", maxsplit=1)[0] in SILENT_NAMESPACES:
        return "view"
    plain = out_of_place(op)
    if plain in COPIES or op in COPIES:
        return "copy"
    return "pointwise" if plain in _POINTWISE else None


def multiplies_matrices(op: str) -> bool:
    """Whether the name of an op says that it is a product."""
    words = op.rsplit(".", maxsplit=1)[-1].split("_")
    return any(word in words or op.endswith(word) for word in MATRIX_WORDS)
