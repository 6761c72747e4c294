"""A profile that holds only the phases which the settings ask for. The model is one linear layer, 3 rows of 4 -> 2."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import module, rooted
from random_trees import trees

from flopsight.analysis.phase_filter import only
from flopsight.results.caveats import BadFormula, Note, UnknownOps, Window
from flopsight.results.costs import Cost, OpRow
from flopsight.results.coverage import Coverage, UnknownOp
from flopsight.results.profile import Profile
from flopsight.results.records import PHASES
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import Whole

MACS = 3 * 4 * 2
FORWARD = Cost(MACS, 2 * MACS, 4 * (3 * 4 + 4 * 2 + 3 * 2))
BACKWARD = Cost(2 * MACS, 4 * MACS, 200)
OPTIMIZER = Cost(0, 4 * 2, 96)
SPUN = Cost(bytes=64)


def step():
    """One step of training: a product forward, two backward and an op that nobody knows, an update of the 8 weights."""
    rows = (
        OpRow("aten.mm", "forward", 1, FORWARD),
        OpRow("aten.mm", "backward", 2, BACKWARD),
        OpRow("mylib.spin", "backward", 1, SPUN, "unknown"),
        OpRow("aten.add_", "optimizer", 1, OPTIMIZER),
    )
    layer = module(
        "fc", "Linear", macs=MACS, moved=FORWARD.bytes, params=(8,), backward=BACKWARD + SPUN, optimizer=OPTIMIZER,
        latency=0.2, backward_latency=0.3, host_latency=0.1, ops=rows, saved=48,
    )  # fmt: skip
    return Profile(
        rooted(module("", "Net", layer)),
        coverage=Coverage(
            counted={"aten.mm": 3, "aten.add_": 1},
            free={"aten.t": 3},
            unknown={"mylib.spin": UnknownOp(1, ("fc",), 64)},
            bytes_known=FORWARD.bytes + 200 + 96,
        ),
        timing=Timing(*(Stat((seconds,)) for seconds in (0.2, 0.3, 0.1, 0.6, 0.7, 0.1)), busy=0.1, backward_busy=0.2),
        caveats=(UnknownOps(("mylib.spin",), 1), Window(2, 4, 2, 3 * (6 * MACS + 8))),
        batch_size=3,
        trained=True,
        peak_bytes=999,
    )


def test_only_the_forward_stays():
    left = only(step(), ("forward",))

    assert left.forward == left["fc"].forward == FORWARD
    assert left.backward == left.recompute == left.optimizer == Cost()
    assert [(row.op, row.phase) for row in left["fc"].ops] == [("aten.mm", "forward")]
    assert (left["fc"].latency, left["fc"].host_latency, left["fc"].backward_latency) == (0.2, 0.1, None)
    whole = {"step": Stat((0.6,)), "iteration": Stat((0.7,)), "data_wait": Stat((0.1,))}
    assert left.timing == Timing(forward=Stat((0.2,)), busy=0.1, **whole)
    assert not left.trained


def test_throughput_is_that_of_the_loop_whatever_is_left_out():
    assert step().throughput == only(step(), ("forward",)).throughput == 3 / 0.7
    assert only(step(), ("forward", "backward")).throughput == 3 / 0.7
    assert only(step(), ("optimizer",)).throughput is None


def test_utilization_is_that_of_the_same_time_and_work_or_none():
    known = replace(step(), peak_flops={"float32": 1e6})
    forward = only(replace(known, root=with_dtype(known.root)), ("forward",))

    assert forward.mfu == pytest.approx(2 * MACS / 0.2 / 1e6)  # of the forward, over its own time
    assert only(known, ("backward", "optimizer")).mfu is None


def with_dtype(node):
    return replace(
        node,
        ops=tuple(replace(row, dtype="float32") for row in node.ops),
        children=tuple(map(with_dtype, node.children)),
    )


def test_parameters_and_memory_are_those_of_the_step():
    left = only(step(), ("optimizer",))

    assert (left.params, left.activation_bytes, left.peak_bytes, left["fc"].calls) == (8, 48, 999, 1)
    assert (left.macs, left.optimizer) == (0, OPTIMIZER)
    assert left["fc"].latency is None
    assert left.timing == Timing(optimizer=Stat((0.1,)))


def test_a_note_says_what_was_left_out():
    left = only(step(), ("forward",))

    assert left.caveats[-1] == Note(
        "Left out by the settings: backward, optimizer. Parameters, calls, memory and throughput are those of the whole step."
    )


def test_the_total_of_the_window_is_of_what_is_left():
    (window,) = [caveat for caveat in only(step(), ("forward",)).caveats if isinstance(caveat, Window)]

    assert window == Window(2, 4, 2, 3 * 2 * MACS)


def test_a_window_whose_steps_differ_has_no_total_still():
    unlike = replace(step(), caveats=(Window(2, 4, 2, None),))

    assert only(unlike, ("forward",)).caveats[0] == Window(2, 4, 2, None)


def test_the_ledger_holds_what_is_left_and_doubts_nothing_else():
    bad = BadFormula("mylib.spin", "the formula raised")
    left = only(replace(step(), caveats=(*step().caveats, bad)), ("forward", "optimizer"))

    assert left.coverage.counted == {"aten.mm": 1, "aten.add_": 1}
    assert left.coverage.free == {"aten.t": 3}, "views are not told apart by phase"
    assert left.coverage.complete
    assert left.coverage.bytes_known == FORWARD.bytes + 96
    assert not [caveat for caveat in left.caveats if isinstance(caveat, UnknownOps | BadFormula)]


def test_what_is_unknown_stays_unknown_in_the_phase_that_stays():
    left = only(step(), ("backward",))

    assert left.coverage.unknown == {"mylib.spin": UnknownOp(1, ("fc",), 64)}
    assert left.caveats[0] == UnknownOps(("mylib.spin",), 1)


def test_a_phase_that_did_not_run_is_not_said_to_be_left_out():
    trained = step()
    inference = only(trained, ("forward",))

    assert only(inference, ("forward", "recompute")) is inference
    assert only(trained, ("forward", "backward", "optimizer")) is trained


def test_utilization_of_the_forward_alone_is_over_the_forwards_time():
    known = replace(step(), peak_flops={"": 1000.0})

    assert known.mfu == pytest.approx(2 * 3 * MACS / 0.7 / 1000)
    assert only(known, ("forward",)).mfu == pytest.approx(2 * MACS / 0.2 / 1000)
    assert only(known, ("backward",)).mfu is None


def test_costs_of_the_whole_model_are_left_out_too():
    done_again = Cost(macs=5)
    parts = replace(step(), unsharded=Whole(16, 2 * MACS, 4 * MACS, Cost(macs=4 * MACS), done_again))

    assert only(parts, ("backward",)).whole == Whole(16, 0, 0, Cost(macs=4 * MACS))
    assert only(parts, ("forward",)).whole == Whole(16, 2 * MACS, 4 * MACS)


@given(root=trees, chosen=st.sets(st.sampled_from(PHASES), min_size=1))
def test_every_phase_is_whole_or_absent_in_every_module(root, chosen):
    left = only(Profile(root), chosen)

    for before, after in zip(root.walk(), left.walk(), strict=True):
        for phase in PHASES:
            expected = getattr(before.own, phase) if phase in chosen else Cost()
            assert getattr(after.own, phase) == expected
        assert {row.phase for row in after.ops} <= chosen
