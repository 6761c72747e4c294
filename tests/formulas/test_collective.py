"""Communication: no FLOPs, and the bytes that this rank hands over."""

import pytest
import torch
import torch.distributed.fsdp  # noqa: F401, registers the ops
from formulas.calls import handmade, tensor

from flopsight.formulas import price

SHARD, WHOLE = tensor((8, 4)), tensor((32, 4))
GROUP = {"process_group": None, "reduce_op": None}
NAMED = {"group_name": "0"}


@pytest.mark.parametrize(
    ("made", "moved"),
    [
        (handmade("_c10d_functional.all_reduce", SHARD, input=SHARD, reduce_op="sum", **NAMED), 128),
        (handmade("_c10d_functional.all_reduce_", SHARD, input=SHARD, reduce_op="sum", **NAMED), 128),
        (handmade("_c10d_functional.all_reduce_coalesced", SHARD, SHARD, inputs=(SHARD, SHARD), reduce_op="sum", **NAMED), 256),
        (handmade("_c10d_functional.all_gather_into_tensor", WHOLE, input=SHARD, group_size=4, **NAMED), 128),
        (handmade("_c10d_functional.reduce_scatter_tensor", SHARD, input=WHOLE, reduce_op="sum", group_size=4, **NAMED), 512),
        (handmade("_c10d_functional.all_to_all_single", WHOLE, input=WHOLE, output_split_sizes=(), input_split_sizes=(),
                  **NAMED), 512),
        (handmade("_c10d_functional.broadcast", SHARD, input=SHARD, src=0, **NAMED), 128),
        (handmade("_c10d_functional.wait_tensor", SHARD, tensor=SHARD), 0),
        (handmade("c10d.allreduce_", SHARD, tensors=(SHARD,), **GROUP, sparse_indices=None), 128),
        (handmade("c10d._allgather_base_", WHOLE, output_tensor=WHOLE, input_tensor=SHARD, process_group=None), 128),
        (handmade("c10d.allgather_", WHOLE, output_tensors=((SHARD,) * 4,), input_tensors=(SHARD,), process_group=None), 128),
        (handmade("c10d._reduce_scatter_base_", SHARD, output_tensor=SHARD, input_tensor=WHOLE, **GROUP), 512),
        (handmade("c10d.reduce_scatter_", SHARD, output_tensors=(SHARD,), input_tensors=((SHARD,) * 4,), **GROUP), 512),
        (handmade("c10d.alltoall_base_", output=WHOLE, input=WHOLE, process_group=None, output_split_sizes=(),
                  input_split_sizes=()), 512),
        (handmade("c10d.send", tensors=(SHARD,), process_group=None, dst=1, tag=0), 128),
        (handmade("c10d.recv_", tensors=(SHARD,), process_group=None, src=1, tag=0), 0),
        (handmade("c10d.barrier", tensor=SHARD, process_group=None, device_ids=()), 0),
    ],
)  # fmt: skip
def test_a_rank_hands_over_what_goes_in(made, moved):
    priced = price(made)

    assert (priced.status, priced.cost.flops, priced.cost.bytes) == ("free", 0, moved)


@pytest.mark.parametrize(
    ("made", "moved"),
    [
        (handmade("fsdp.all_gather_copy_in", SHARD, WHOLE, all_gather_inputs=(SHARD, SHARD), all_gather_output=WHOLE,
                  inp_split_sizes=(32, 32), all_gather_input_numel=64, rank=0), 2 * 2 * 128),
        (handmade("fsdp.split_with_sizes_copy", all_gather_output=WHOLE, all_gather_input_split_sizes=(64, 64), dim=0),
         2 * 512),
        (handmade("fsdp.chunk_cat", tensors=(WHOLE, SHARD), dim=0, num_chunks=2), 2 * (512 + 128)),
        (handmade("fsdp.chunk_cat_mixed_dtype", tensors=(WHOLE, SHARD), dim=0, num_chunks=2), 2 * (512 + 128)),
        (handmade("fsdp.copy_", tensor=SHARD, data=SHARD), 2 * 128),
    ],
)  # fmt: skip
def test_shards_are_read_and_written_once_around_a_collective(made, moved):
    priced = price(made)

    assert (priced.status, priced.cost.flops, priced.cost.bytes) == ("free", 0, moved)


@pytest.mark.skipif(not hasattr(torch.ops._c10d_functional, "batch_p2p_ops"), reason="newer than the oldest torch")
def test_point_to_point_batches_count_what_is_sent():
    made = handmade("_c10d_functional.batch_p2p_ops", SHARD, op_list=("isend", "irecv"), peer_list=(0, 1),
                    tag_list=(0, 0), tensors=(SHARD, WHOLE), group_name="0")  # fmt: skip

    assert price(made).cost.bytes == 128
