"""How long collectives take on a device, and how much of that no computation covers: on recorded and on made-up traces."""

from dataclasses import replace

import pytest
from capture.time.kineto_files import events_of

from flopsight.analysis.times import with_comm_times
from flopsight.capture.time.collective_times import collective_of, collective_times
from flopsight.capture.time.kernels import NODE, Marks, TraceEvent
from flopsight.results.comm import CommRow
from flopsight.results.node import Node

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
        ("nccl:all_to_all", "all_to_all"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 1<-0", "recv"),
        ("nccl:coalesced", None),
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


def test_a_recorded_trace_names_the_collectives_that_one_rank_does_by_copying():
    # On one rank NCCL copies memory for all but the averages; torch's marks tell which copy is which collective. Both
    # products take long: of the second all-gather, from 2,810,533 to 2,843,493 ns, the second product covers what comes
    # after its begin at 2,842,085. The first product covers none, and the average ends before it begins.
    gathers = 32_607 + 32_960
    assert seconds(collective_times(events_of("collectives"), Marks({}))) == {
        ("all_reduce", "forward"): (49_791, 49_791),
        ("all_gather", "forward"): (gathers, gathers - (2_843_493 - 2_842_085)),
        ("reduce_scatter", "forward"): (34_656, 34_656),
        ("all_to_all", "forward"): (32_800, 32_800),
        ("send", "forward"): (38_240, 38_240),  # a real ncclDevKernel_SendRecv: this rank sends to itself
    }


def test_a_recorded_backward_that_averages_three_buckets():
    # every bucket's kernel ran when the device had nothing else to do: the net is small, and launching takes longer
    buckets = 7_263 + 7_104 + 7_424
    assert seconds(collective_times(events_of("ddp_averages"), Marks({}))) == {
        ("all_reduce", "backward"): (buckets, buckets),
    }


def test_the_same_backward_with_kernels_that_wait_for_other_ranks():
    # The three averages as several ranks run them: other kernels, which take as long as the slowest rank needs. The first
    # runs from 7,527,137 to 7,977,137 ns beside the two products of the next layer; the second from 8,178,334 to 8,628,334
    # beside the last product and the copy into the last bucket; the third, to 8,845,804, beside nothing.
    lasting = dict(zip((7_263, 7_104, 7_424), (450_000, 450_000, 190_000), strict=True))
    events = [
        replace(event, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                end=event.begin + lasting[event.end - event.begin])
        if "oneRankReduce" in event.name else event
        for event in events_of("ddp_averages")
    ]  # fmt: skip
    covered = (43_712 + 45_951) + (43_872 + 4_000)

    assert seconds(collective_times(events, Marks({}))) == {
        ("all_reduce", "backward"): (1_090_000, 1_090_000 - covered),
    }


def test_one_kernel_for_all_collectives_is_told_apart_by_torchs_mark():
    marks = TraceEvent("nccl:_reduce_scatter_base", 0, 20, False, 1)
    events = [marks, launch(10, 1), kernel("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", 30, 70, 1)]

    assert seconds(collective_times(events, Marks({}))) == {("reduce_scatter", "forward"): (40, 40)}


def test_a_kernel_of_the_library_covers_no_other_even_where_no_name_tells_what_it_does():
    events = [launch(0, 1), kernel(GATHER, 0, 10, 1, stream=9), kernel("ncclDevKernel_Generic_4", 0, 10, 2, stream=10)]

    assert seconds(collective_times(events, Marks({}))) == {("all_gather", "forward"): (10, 10)}


def test_what_ends_a_backward_goes_to_the_rows_that_have_it():
    # the last scatter of FSDP is launched after the last autograd node, so a trace cannot tell that it is backward
    row = CommRow("reduce_scatter", "backward", 1, 64, 32, 2, "dp")

    timed = with_comm_times(Node("", "", "Net", comm=(row,)), {
        ("reduce_scatter", "forward"): (1.0, 0.5), ("reduce_scatter", "backward"): (2.0, 1.0),
    })  # fmt: skip

    assert (timed.comm[0].seconds, timed.comm[0].exposed) == (3.0, 1.5)


def test_one_rank_alone_shares_out_by_what_is_handed_in():
    rows = tuple(
        CommRow("all_reduce", "forward", 1, handed_in, 0, 1, name) for name, handed_in in (("a", 10), ("b", 30))
    )

    timed = with_comm_times(Node("", "", "Net", comm=rows), {("all_reduce", "forward"): (4.0, 4.0)})

    assert [row.seconds for row in timed.comm] == [1.0, 3.0]


def test_seconds_are_shared_out_by_the_bytes_on_the_wire():
    def block(name, wire):
        return Node(name, name, "Block", comm=(CommRow("all_gather", "forward", 1, wire, wire, 2, "dp"),))

    root = Node("", "", "Net", children=(block("0", 100), block("1", 300)))

    timed = with_comm_times(root, {("all_gather", "forward"): (4.0, 2.0)})

    assert [(child.comm[0].seconds, child.comm[0].exposed) for child in timed.children] == [(1.0, 0.5), (3.0, 1.5)]
