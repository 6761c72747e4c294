"""Communication between ranks: no FLOPs, and as bytes what this rank hands over.

The convention is the payload: every tensor that a rank puts into a collective counts once, whatever algorithm carries
it (a ring all-reduce sends it almost twice). Receiving and waiting hand over nothing.
"""

from collections.abc import Iterator

from ..results import comm
from ..results.costs import FREE, Cost
from ..results.records import OpRecord
from .registry import free, named

HANDED_OVER = ("input", "inputs", "input_list", "input_tensor", "input_tensors", "tensor", "tensors")


@free(
    *named(
        "_c10d_functional",
        """
        all_reduce all_reduce_coalesced all_gather_into_tensor all_gather_into_tensor_coalesced
        all_gather_into_tensor_out reduce_scatter_tensor reduce_scatter_tensor_coalesced reduce_scatter_tensor_out
        all_to_all_single broadcast isend
        """,
    ),
    *named("_c10d_functional_autograd", "all_to_all_single all_gather_into_tensor reduce_scatter_tensor"),
    *named(
        "c10d",
        """
        allreduce allreduce_coalesced allgather _allgather_base allgather_coalesced allgather_into_tensor_coalesced
        reduce reduce_scatter _reduce_scatter_base reduce_scatter_tensor_coalesced alltoall alltoall_base broadcast
        gather gather_into_tensor scatter send
        """,
    ),
)
def handed_over(call: OpRecord) -> Cost:
    """The tensors that go in; of a broadcast, those of its sender."""
    if "broadcast" in call.op and call.facts.get("group_rank", _root(call)) != _root(call):
        return FREE
    return Cost(bytes=sum(meta.nbytes for name in HANDED_OVER for meta in call.tensors(name)))


def _root(call: OpRecord) -> int:
    return int(call.args.get("root_rank", call.args.get("src", 0)))


@free(
    *named("_c10d_functional", "wait_tensor wait_tensors _wrap_tensor_autograd irecv"),
    *named("c10d", "recv recv_any_source barrier monitored_barrier check_for_nan"),
    *named("fsdp", "record_grad_output_stream"),
)
def waited(_: OpRecord) -> Cost:
    """Nothing is handed over."""
    return FREE


@free("_c10d_functional.batch_p2p_ops")
def point_to_point(call: OpRecord) -> Cost:
    """The tensors that are sent; the others arrive."""
    pairs = zip(call.args["op_list"], call.tensors("tensors"), strict=True)
    return Cost(bytes=sum(meta.nbytes for op, meta in pairs if "send" in op))


@free(*named("fsdp", "all_gather_copy_in split_with_sizes_copy chunk_cat chunk_cat_mixed_dtype copy"))
def packed(call: OpRecord) -> Cost:
    """Shards are copied into one buffer, or out of it, around a collective: read once and written once."""
    shards = next(iter(call.args))
    return Cost(bytes=2 * sum(meta.nbytes for meta in call.tensors(shards)))


NO_EXCHANGE = ("wait", "barrier", "check", "wrap")


def exchanged(call: OpRecord) -> Iterator[tuple[str, int, int]]:
    """What an op exchanges: the collective, how many of it, the bytes that this rank hands in; nothing for a wait."""
    name = call.op.rpartition(".")[2]
    if any(word in name for word in NO_EXCHANGE):
        return
    if name == "batch_p2p_ops":
        sent = [op for op in call.args["op_list"] if "send" in op]
        received = len(call.args["op_list"]) - len(sent)
        yield from [(comm.SEND, len(sent), point_to_point(call).bytes)] if sent else []
        yield from [(comm.RECV, received, 0)] if received else []
        return
    kind = comm.collective_named(name)
    if kind is not None:
        yield kind, 1, 0 if kind == comm.RECV else handed_over(call).bytes
