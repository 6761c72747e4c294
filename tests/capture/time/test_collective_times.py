"""How long collectives take on a device, and how much of that no computation covers: worked out on made-up traces."""

import pytest

from flopsight.analysis.comm_times import with_comm_times
from flopsight.capture.time.collective_times import collective_of, collective_times
from flopsight.capture.time.kernels import NODE, Marks, TraceEvent
from flopsight.comm import CommRow
from flopsight.tree import Node

GATHER, REDUCE = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce_Sum_f32"


def kernel(name, begin, end, correlation=0, stream=7):
    return TraceEvent(name, begin, end, True, stream, correlation)


def launch(moment, correlation):
    return TraceEvent("cudaLaunchKernel", moment, moment + 1, False, 1, correlation)


def seconds(found):
    """Whole nanoseconds, as they were drawn."""
    return {key: tuple(round(time * 1e9) for time in times) for key, times in found.items()}


@pytest.mark.parametrize(
    ("name", "op"),
    [
        (GATHER, "all_gather"),
        (REDUCE, "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"),
        ("void at::native::reduce_kernel<512, 1>", None),
        ("ampere_sgemm_128x64_nn", None),
    ],
)
def test_kernels_of_the_library_are_collectives(name, op):
    assert collective_of(name) == op


def test_what_a_computation_covers_is_not_exposed():
    # the gather runs 100 ns: a product covers its first 30, another its last 20, and both together from 40 to 50
    events = [
        launch(0, 1),
        kernel(GATHER, 100, 200, 1, stream=9),
        kernel("gemm", 50, 130),
        kernel("gemm", 140, 150),
        kernel("relu", 145, 148, stream=8),
        kernel("gemm", 180, 250),
    ]

    assert seconds(collective_times(events, Marks({}))) == {("all_gather", "forward"): (100, 100 - 30 - 10 - 20)}


def test_collectives_do_not_cover_each_other():
    events = [launch(0, 1), launch(0, 2), kernel(GATHER, 0, 10, 1, stream=9), kernel(REDUCE, 0, 10, 2, stream=10)]

    assert seconds(collective_times(events, Marks({}))) == {
        ("all_gather", "forward"): (10, 10),
        ("all_reduce", "forward"): (10, 10),
    }


def test_what_backward_launches_is_backward():
    node = TraceEvent(f"{NODE}MmBackward0", 0, 50, False, 1, sequence=3)
    events = [node, launch(10, 1), kernel(REDUCE, 60, 70, 1)]

    assert seconds(collective_times(events, Marks({}, makers=((0, "layer"),)))) == {
        ("all_reduce", "backward"): (10, 10),
    }


def test_seconds_are_shared_out_by_the_bytes_on_the_wire():
    def block(name, wire):
        return Node(name, name, "Block", comm=(CommRow("all_gather", "forward", 1, wire, wire, 2, "dp"),))

    root = Node("", "", "Net", children=(block("0", 100), block("1", 300)))

    timed = with_comm_times(root, {("all_gather", "forward"): (4.0, 2.0)})

    assert [(child.comm[0].seconds, child.comm[0].exposed) for child in timed.children] == [(1.0, 0.5), (3.0, 1.5)]
