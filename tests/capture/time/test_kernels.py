"""Kernels find their modules: streams written by hand, and one that bench/gpu.py saved on an H200."""

import json
from collections import Counter
from pathlib import Path

import pytest

from flopsight.capture.time.kernels import NODE, Marks, TraceEvent, place_kernels, with_children

MAIN, AUTOGRAD, STREAM = 1, 2, 7


def op(name, begin, end, correlation, thread=MAIN, sequence=-1):
    return TraceEvent(name, begin, end, device=False, lane=thread, correlation=correlation, sequence=sequence)


def kernel(name, begin, end, *, launch=0, linked=0):
    return TraceEvent(name, begin, end, device=True, lane=STREAM, correlation=launch, linked=linked)


ROWS = {MAIN: [(10, ""), (20, "a"), (40, ""), (50, "b"), (70, ""), (80, "<outside>")]}


def test_a_kernel_goes_to_the_module_that_ran_when_it_was_launched_however_late_it_ran():
    events = [
        op("cudaLaunchKernel", 25, 26, 1),
        op("cudaLaunchKernel", 55, 56, 2),
        kernel("first", 1000, 1500, launch=1),
        kernel("second", 1500, 1700, launch=2),
    ]

    found = place_kernels(events, Marks(ROWS))

    assert found.by_row == {("a", "forward"): pytest.approx(500e-9), ("b", "forward"): pytest.approx(200e-9)}
    assert found.busy == pytest.approx(700e-9)


def test_without_a_launch_event_the_linked_op_decides():
    events = [op("aten::mm", 55, 60, 9), kernel("gemm", 1000, 1100, launch=77, linked=9)]

    assert place_kernels(events, Marks(ROWS)).by_row == {("b", "forward"): pytest.approx(100e-9)}


def test_backward_goes_to_the_maker_of_the_node_and_recompute_to_the_module_that_runs_again():
    marks = Marks({**ROWS, AUTOGRAD: [(230, "b"), (240, "<outside>")]}, makers=[(0, ""), (3, "a"), (5, "b"), (8, "")])
    events = [
        op(f"{NODE}AddmmBackward0", 200, 220, 0, AUTOGRAD, sequence=6),
        op("cudaLaunchKernel", 210, 211, 1, AUTOGRAD),
        kernel("of b", 1000, 1100, launch=1),
        op(f"{NODE}CheckpointFunctionBackward", 225, 260, 0, AUTOGRAD, sequence=4),
        op("cudaLaunchKernel", 235, 236, 2, AUTOGRAD),
        kernel("again", 1100, 1400, launch=2),
        op("cudaLaunchKernel", 250, 251, 3, AUTOGRAD),
        kernel("of a", 1400, 1450, launch=3),
    ]

    assert place_kernels(events, marks).by_row == {
        ("b", "backward"): pytest.approx(100e-9),
        ("b", "recompute"): pytest.approx(300e-9),
        ("a", "backward"): pytest.approx(50e-9),
    }


def test_the_optimizer_is_told_by_its_span_and_a_stranger_by_its_name():
    marks = Marks(ROWS, optimizer=[(90, 99)])
    events = [
        op("cudaLaunchKernel", 95, 96, 1),
        kernel("adam", 1000, 1010, launch=1),
        kernel("nobody's", 2000, 2030),
    ]

    found = place_kernels(events, marks)

    assert found.by_row == {("<outside>", "optimizer"): pytest.approx(10e-9)}
    assert found.unplaced == {"nobody's": pytest.approx(30e-9)}
    assert found.busy == pytest.approx(40e-9)


def test_a_gradient_is_gathered_for_the_module_whose_node_made_it():
    marks = Marks(ROWS, makers=[(0, ""), (3, "a"), (5, "b"), (8, "")])
    gather = f"{NODE}torch::autograd::AccumulateGrad"
    events = [
        op(f"{NODE}AddmmBackward0", 200, 220, 0, AUTOGRAD, sequence=6),
        op(gather, 221, 230, 0, AUTOGRAD),
        op(gather, 231, 240, 0, AUTOGRAD),
        op("cudaLaunchKernel", 235, 236, 1, AUTOGRAD),
        kernel("add to the gradient of b", 1000, 1100, launch=1),
        op(f"{NODE}AddmmBackward0", 241, 250, 0, AUTOGRAD, sequence=4),
        op(gather, 251, 260, 0, AUTOGRAD),
        op("cudaLaunchKernel", 255, 256, 2, AUTOGRAD),
        kernel("add to the gradient of a", 1100, 1300, launch=2),
    ]

    assert place_kernels(events, marks).by_row == {
        ("b", "backward"): pytest.approx(100e-9),
        ("a", "backward"): pytest.approx(200e-9),
    }


def test_a_call_lasts_on_the_device_from_its_first_kernel_to_the_end_of_its_last():
    calls = [(MAIN, 20, 40, "a"), (MAIN, 50, 70, "b"), (MAIN, 10, 80, "")]
    events = [
        op("cudaLaunchKernel", 25, 26, 1),
        op("cudaLaunchKernel", 35, 36, 2),
        op("cudaLaunchKernel", 55, 56, 3),
        kernel("first of a", 1000, 1100, launch=1),
        kernel("second of a, after a gap", 1300, 1500, launch=2),
        kernel("of b, beside it on another stream", 1400, 1700, launch=3),
    ]

    found = place_kernels(events, Marks(ROWS, calls=calls))

    assert found.streams == {
        "a": pytest.approx(500e-9),
        "b": pytest.approx(300e-9),
        "": pytest.approx(700e-9),
    }
    assert found.busy == pytest.approx((100 + 200 + 300) * 1e-9)
    assert found.covered == pytest.approx((100 + 400) * 1e-9)  # 1400 to 1500 is covered once


def test_two_calls_of_one_module_add_up_without_the_time_between_them():
    calls = [(MAIN, 20, 30, "a"), (MAIN, 31, 40, "a")]
    events = [
        op("cudaLaunchKernel", 25, 26, 1),
        op("cudaLaunchKernel", 35, 36, 2),
        kernel("first call", 1000, 1100, launch=1),
        kernel("second call", 5000, 5050, launch=2),
    ]

    assert place_kernels(events, Marks(ROWS, calls=calls)).streams == {"a": pytest.approx(150e-9)}


def test_inclusive_times_add_up_to_the_root():
    own = {"": 1.0, "a": 2.0, "a.b": 4.0, "<outside>": 8.0}

    assert with_children(own, ["c"]) == {"c": 0.0, "": 15.0, "a": 6.0, "a.b": 4.0, "<outside>": 8.0}


@pytest.fixture(name="h200", scope="module")
def _h200():
    page = json.loads((Path(__file__).parents[2] / "data" / "h200_events.json").read_text())
    rows = {int(thread): [tuple(mark) for mark in marks] for thread, marks in page["marks"]["rows"].items()}
    marks = Marks(rows, [tuple(m) for m in page["marks"]["makers"]], [tuple(s) for s in page["marks"]["optimizer"]])
    return [TraceEvent(*event) for event in page["events"]], marks


def test_every_kernel_of_a_real_training_step_is_placed_and_the_sums_add_up(h200):
    events, marks = h200
    found = place_kernels(events, marks)

    assert not found.unplaced
    durations = sum(event.end - event.begin for event in events if event.device) / 1e9
    assert found.busy == pytest.approx(durations)
    assert sum(found.by_row.values()) == pytest.approx(durations)


def test_every_linear_of_a_real_training_step_has_forward_and_backward_kernels(h200):
    found = place_kernels(*h200)

    linears = {f"{block}.{name}" for block in "01" for name in ("qkv", "out", "up", "down")}
    assert linears <= set(found.rows("forward"))
    assert linears <= set(found.rows("backward"))
    phases = Counter(phase for _, phase in found.by_row)
    assert set(phases) == {"forward", "backward", "optimizer"}
