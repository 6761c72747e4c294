"""Which release of torch brought an op or took it away, for those that not every supported release has."""

import re

import pytest
import torch

TORCH = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])

BROUGHT = {
    (2, 7): """
        aten._dyn_quant_matmul_4bit aten._dyn_quant_pack_4bit_weight aten._scaled_grouped_mm
        aten._cudnn_attention_forward aten._flash_attention_backward
    """,
    (2, 8): "aten._grouped_mm aten._weight_int4pack_mm_with_scales_and_zeros onednn.qconv_pointwise",
    (2, 9): """
        aten._cudnn_attention_backward aten._fused_rms_norm aten._fused_rms_norm_backward aten.hash_tensor
        aten.sym_is_contiguous fsdp.all_gather_copy_in
    """,
    (2, 10): "aten._scaled_mm_v2 aten._scaled_grouped_mm_v2 _c10d_functional.reduce_scatter_tensor_out",
    (2, 11): """
        aten._foreach_powsum aten.linalg__powsum aten.miopen_ctc_loss aten._use_miopen_ctc_loss
        torch_attn._varlen_attn torch_attn._varlen_attn_backward _c10d_functional._wrap_tensor_autograd
    """,
    (2, 12): """
        aten._flash_attention_forward_no_dropout_inplace aten._foreach_clone aten._philox_key_fold_in
        aten._philox_key_split aten._philox_normal aten._philox_uniform aten._upsample_lanczos2d_aa
        aten._upsample_lanczos2d_aa_backward _c10d_functional.batch_p2p_ops _c10d_functional.irecv
        _c10d_functional.isend c10d.check_for_nan torch_attn._varlen_attn_out aten.dim aten.is_contiguous aten.numel
        aten.storage_offset
    """,
    (2, 13): "aten._foreach_mm",
    (2, 14): "aten.linalg_matrix_sqrth aten.linalg_polar aten.shallow_copy_data_",
    (2, 15): """
        aten._scaled_addmm aten._philox_randint aten._cudnn_attention_forward_no_dropout_inplace
        fsdp.chunk_cat_mixed_dtype fsdp.record_grad_output_stream _c10d_functional.wait_tensors c10d.gather_into_tensor
    """,
}
"""Older releases have some of these with other arguments: flash attention's backward, fused RMS norm, FSDP's
copies, variable-length attention in 2.10."""
TAKEN = {(2, 14): "aten.cholesky aten.qr"}


FSDP2 = TORCH >= (2, 7)
"""Whether `fully_shard` runs on a CPU: before 2.7 it asks for a stream of the device."""
with_dry_runs = pytest.mark.skipif(TORCH < (2, 11), reason="before 2.11 the fake process group refuses tensors on meta")
with_compiled_peaks = pytest.mark.skipif(
    TORCH < (2, 11), reason="before 2.11 torch.compile takes no model without data"
)
with_fsdp2 = pytest.mark.skipif(not FSDP2, reason="before 2.7 fully_shard does not run on a CPU")
PIPELINES = TORCH != (2, 9)
"""Whether pipelines run over gloo: in 2.9 a stage sends 8 bytes where the next one waits for 4, and the process aborts."""
with_pipelines = pytest.mark.skipif(not PIPELINES, reason="2.9 aborts where a pipeline runs over gloo")


def since(release, what):
    """Leave a test out on releases in which torch itself cannot do what it needs."""
    return pytest.mark.skipif(release > TORCH, reason=f"before {release[0]}.{release[1]} torch has no {what}")


def absent_here():
    """The ops that this torch is known not to have."""
    later = [names for release, names in BROUGHT.items() if release > TORCH]
    gone = [names for release, names in TAKEN.items() if release <= TORCH]
    return {name for names in (*later, *gone) for name in names.split()}


def load_varlen():
    """Register the ops of variable-length attention where torch has them."""
    if TORCH >= (2, 11):
        import torch.nn.attention.varlen  # noqa: F401
