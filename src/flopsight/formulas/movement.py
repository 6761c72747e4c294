"""Ops that compute nothing: what they move, or that they move nothing at all."""

from ..results.costs import FREE, Cost
from ..results.op_kinds import FILLED, MOVED, NO_WORK
from ..results.records import OpRecord
from .registry import aten, free, named, traffic


@free(
    *MOVED,
    *aten("""
    _to_cpu _lazy_clone _copy_from _copy_from_and_resize _pin_memory
    lift_fresh_copy
    masked_scatter_backward
    concat concatenate _stack hstack vstack dstack column_stack _chunk_cat block_diag tile
    repeat_interleave fliplr flipud rot90 pad reflection_pad1d reflection_pad2d
    reflection_pad3d replication_pad1d replication_pad2d replication_pad3d _pad_circular _pad_enum pad_sequence
    native_channel_shuffle im2col unfold_copy diag_embed diag
    diagonal_copy meshgrid cartesian_prod combinations
    select_backward slice_backward diagonal_backward select_scatter slice_scatter diagonal_scatter as_strided_scatter
    alias_copy as_strided_copy detach_copy narrow_copy select_copy slice_copy split_copy
    split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unsqueeze_copy values_copy
    indices_copy crow_indices_copy col_indices_copy ccol_indices_copy row_indices_copy view_as_complex_copy
    _conj_copy _neg_view_copy _fw_primal_copy _make_dual_copy _reshape_alias_copy _indices_copy
    _values_copy _nested_get_values_copy _nested_view_from_buffer_copy _nested_view_from_jagged_copy
    _sparse_broadcast_to_copy
    scatter index_copy index_fill masked_select
    sort argsort msort topk kthvalue median nanmedian mode unique_consecutive unique_dim unique_dim_consecutive
    _unique _unique2 nonzero nonzero_static nonzero_numpy argwhere searchsorted bucketize isin one_hot bincount histc histogram
    _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors hash_tensor
    eq ne lt le gt ge equal allclose isclose logical_and logical_or logical_xor heaviside
    bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ __iand__ __ior__ __ixor__ __irshift__
    __ilshift__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift isnan isinf isfinite isneginf isposinf signbit any all argmax argmin count_nonzero _is_all_true
    _is_any_true
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d max_unpool2d max_unpool3d lu_unpack
    _pack_padded_sequence _pad_packed_sequence _pack_padded_sequence_backward _cudnn_rnn_flatten_weight
    _jagged_to_padded_dense_forward _padded_dense_to_jagged_forward _nested_from_padded
    _nested_from_padded_and_nested_example _nested_from_padded_tensor _nested_tensor_from_mask
    _nested_tensor_from_tensor_list nested_to_padded_tensor to_padded_tensor _nested_select_backward _nested_sum_backward
    _nested_tensor_from_mask_left_aligned
    to_dense _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc to_sparse sparse_mask
    _sparse_mask_projection _spdiags _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
    copy_sparse_to_sparse _to_sparse_semi_structured _sparse_semi_structured_apply _sparse_semi_structured_apply_dense
    _sparse_semi_structured_tile _cslt_compress _coalesced
    to_mkldnn mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight _mkldnn_reshape _mkldnn_transpose
    quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic int_repr _make_per_tensor_quantized_tensor
    _make_per_channel_quantized_tensor _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu
    _dyn_quant_pack_4bit_weight _saturate_weight_to_fp16 _linalg_check_errors
    bernoulli binomial multinomial normal poisson _standard_gamma _sample_dirichlet _philox_key_split
    _philox_key_fold_in normal_functional random
    _foreach_clone
    """),
    *named("quantized", "cat cat_relu"),
)
def moved(call: OpRecord) -> Cost:
    """Every input is read once and every output written once."""
    return Cost(bytes=traffic(call))


@free(
    *FILLED,
    *aten("""
    fill_diagonal_
    _new_zeros_with_same_feature_meta range linspace logspace
    tril_indices triu_indices _dim_arange
    rand randn randint randperm rand_like randn_like randint_like bernoulli_ cauchy exponential geometric log_normal
    normal_ random_ uniform _philox_normal _philox_uniform _philox_randint _fill_mem_eff_dropout_mask_ _cudnn_init_dropout_state
    """),
)
def written(call: OpRecord) -> Cost:
    """What was in the tensor does not matter: it is written, and only other inputs are read."""
    first = next(iter(call.args), None)
    read = sum(meta.nbytes for name in call.args if name != first for meta in call.tensors(name))
    return Cost(bytes=read + sum(meta.nbytes for meta in call.outputs))


@free(*aten("index _unsafe_index _unsafe_masked_index index_select gather take take_along_dim"))
def gathered(call: OpRecord) -> Cost:
    """Only the picked elements are read, with their indices, and written."""
    source = call.inputs[0]
    read = sum(meta.nbytes for meta in call.inputs) - source.nbytes
    return Cost(bytes=read + 2 * sum(meta.nbytes for meta in call.outputs))


@free(*aten("scatter_ index_copy_"))
def scattered(call: OpRecord) -> Cost:
    """In place only the source is read, with its indices, and as many elements written."""
    index = call.tensor("index")
    source = call.args.get("src", call.args.get("source"))
    size = call.output.itemsize
    written_elements = index.numel if "src" in call.args or source is None else source.numel
    return Cost(bytes=index.nbytes + (2 if source is not None else 1) * written_elements * size)


@free(
    *NO_WORK,
    *aten("""
    empty_quantized _empty_affine_quantized
    _empty_per_channel_affine_quantized resize resize_as _resize_output set sparse_resize sparse_resize_and_clear
    resize_as_sparse from_file
    as_strided_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_
    is_set_to _has_same_storage_numel
    item _assert_tensor_metadata _functional_assert_async
    _functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size
    sym_constrain_range sym_constrain_range_for_size _make_dep_token _print
    _use_cudnn_ctc_loss _use_miopen_ctc_loss _cslt_sparse_mm_search
    q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points qscheme
    _nested_get_jagged_dummy _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen
    _nested_get_ragged_idx _nested_tensor_size _nested_tensor_storage_offsets
    _nested_tensor_strides _nested_compute_contiguous_strides_offsets
    sparse_coo_tensor sparse_compressed_tensor _sparse_coo_tensor_unsafe _sparse_compressed_tensor_unsafe
    _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _sparse_compressed_tensor_with_dims
    _validate_compressed_sparse_indices
    """),
)
def still(_: OpRecord) -> Cost:
    """Nothing moves: a tensor is renamed, reserved, looked at."""
    return FREE
