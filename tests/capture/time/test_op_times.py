"""Seconds by op: from events written here, and from a traced run."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import flopsight
from flopsight.analysis.times import with_op_times
from flopsight.capture.time.kernels import Marks, TraceEvent
from flopsight.capture.time.op_seconds import op_times
from flopsight.results.costs import Cost, OpRow
from flopsight.results.node import Node

MARKS = Marks({1: [(0, "a"), (1000, "b")]})


def host(name, begin, end, number):
    return TraceEvent(name, begin, end, device=False, lane=1, correlation=number)


def kernel(begin, end, launch, op):
    return TraceEvent("some_kernel", begin, end, device=True, lane=7, correlation=launch, linked=op)


def test_a_kernel_carries_the_names_of_the_ops_around_it():
    events = [
        host("aten::linear", 0, 100, 10), host("aten::addmm", 10, 90, 11), host("cudaLaunchKernel", 20, 30, 50), kernel(200, 700, 50, 11),
        host("aten::relu", 1100, 1200, 12), host("cudaLaunchKernel", 1110, 1120, 51), kernel(1300, 1400, 51, 12),
    ]  # fmt: skip

    assert op_times(events, MARKS, on_host=False) == {
        ("a", "forward", ("aten.linear", "aten.addmm")): pytest.approx(500e-9),
        ("b", "forward", ("aten.relu",)): pytest.approx(100e-9),
    }


def test_an_op_of_the_host_has_its_time_without_that_of_the_ops_inside_it():
    events = [host("aten::linear", 0, 100, 10), host("aten::addmm", 10, 90, 11), host("aten::copy_", 20, 30, 12)]

    assert op_times(events, MARKS, on_host=True) == {
        ("a", "forward", ("aten.linear",)): pytest.approx(20e-9),
        ("a", "forward", ("aten.linear", "aten.addmm")): pytest.approx(70e-9),
        ("a", "forward", ("aten.linear", "aten.addmm", "aten.copy_")): pytest.approx(10e-9),
    }


def test_a_time_goes_to_the_outermost_op_that_has_a_row_and_rows_of_one_op_share_it_by_calls():
    rows = (
        OpRow("aten.addmm", "forward", 3, dtype="float32"),
        OpRow("aten.addmm", "forward", 1, dtype="bfloat16"),
        OpRow("aten.relu", "forward", 1),
    )
    times = {
        ("", "forward", ("aten.linear", "aten.addmm")): 3.0,
        ("", "forward", ("aten.linear", "aten.addmm", "aten.copy_")): 1.0,
        ("", "forward", ("aten.unrelated",)): 9.0,
        ("", "backward", ("aten.relu",)): 9.0,
    }  # fmt: skip

    timed = with_op_times(Node("", "", "Model", ops=rows), times)

    assert [row.seconds for row in timed.ops] == [3.0, 1.0, None]


def test_time_without_a_name_that_was_counted_goes_to_the_only_op_that_has_none():
    norm, view = OpRow("aten.native_batch_norm", "forward", 1, Cost(bytes=8)), OpRow("aten.view", "forward", 1)
    times = {("", "forward", ("aten.batch_norm", "aten.cudnn_batch_norm")): 2.0}

    assert [row.seconds for row in with_op_times(Node("", "", "Norm", ops=(norm, view)), times).ops] == [2.0, None]
    two = (norm, OpRow("aten.relu", "forward", 1, Cost(bytes=8)))
    assert [row.seconds for row in with_op_times(Node("", "", "Norm", ops=two), times).ops] == [None, None]


def test_an_optimizers_op_over_all_parameters_is_shared_by_the_bytes_of_each():
    update = OpRow("aten.mul_", "optimizer", 1, Cost(bytes=100))
    small, large = (
        Node(name, name, "Linear", ops=(replace(update, cost=Cost(bytes=moved)),))
        for name, moved in (("a", 100), ("b", 300))
    )
    times = {("<outside>", "optimizer", ("aten._foreach_mul_", "aten.mul_")): 4.0}
    timed = with_op_times(Node("", "", "Model", children=(small, large)), times)

    assert [node.ops[0].seconds for node in timed.children] == [1.0, 3.0]


def test_a_profile_on_a_cpu_has_the_time_of_every_op_that_took_some():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64))
    profile = flopsight.profile(model, (torch.randn(8, 64),), train=True, repeats=2)

    timed = {(node.path, row.op, row.phase) for node in profile.walk() for row in node.ops if row.seconds}
    assert {
        ("0", "aten.addmm", "forward"), ("0", "aten.mm", "backward"), ("1", "aten.relu", "forward"),
        ("1", "aten.threshold_backward", "backward"), ("2", "aten.native_layer_norm", "forward"),
    } <= timed  # fmt: skip


def test_a_count_has_no_times():
    profile = flopsight.count(nn.Linear(4, 4), (torch.ones(1, 4),))

    assert all(row.seconds is None for row in profile.root.ops)
