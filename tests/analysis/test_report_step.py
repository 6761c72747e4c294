"""One denominator for time: the rows of a step add up to it, and each covers what its limit covers."""

from dataclasses import replace

import pytest
from profiles import module, rooted

from flopsight.analysis.report.page_limits import limit_figure, limits
from flopsight.analysis.report.page_step import step_of
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.profile import Environment, Profile
from flopsight.results.records import OUTSIDE
from flopsight.results.timings import Stat, Timing

# 100 bytes a second; no row does matrix work, so every limit is its bytes over that
CEILINGS = Ceilings("toy", {"float32": 1000.0}, bandwidth=100.0)


def moving(name, kind, forward=0, backward=0, optimizer=0, **more):
    """A module that moves that many bytes in each phase."""
    costs = {"forward": forward, "backward": backward, "optimizer": optimizer}
    ops = tuple(OpRow("aten.add", phase, 1, Cost(bytes=size)) for phase, size in costs.items() if size)
    own = Phases(*(Cost(bytes=size) for size in (forward, backward, 0, optimizer)))
    return replace(module(name, kind), own=own, ops=ops, **more)


@pytest.fixture
def trained():
    body = moving("body", "Body", 100, 200, 50, latency=3.0, backward_latency=7.0)
    head = moving("head", "Head", 10, 20, 30, latency=1.0, backward_latency=1.0)
    loss = moving(OUTSIDE, "", 40, backward_latency=0.5)
    root = module("", "Net", body, head, loss, latency=4.0, backward_latency=8.5)
    timing = Timing(
        forward=Stat((4.0,)), backward=Stat((8.5,)), optimizer=Stat((5.0,)), step=Stat((19.0,)), iteration=Stat((21.0,)),
        data_wait=Stat((1.0,)),
    )  # fmt: skip
    device = Environment(device="cpu", dtype="float32")
    return Profile(rooted(root), timing=timing, trained=True, ceilings=CEILINGS, environment=device)


def by_path(step, figure):
    return {node.path: figure.of_node(node) for node in step.nodes}


def test_the_rows_of_an_iteration_add_up_to_it(trained):
    step = step_of(trained)
    times = by_path(step, step.figure())

    # 21 s less 4 + 8.5 of the model, 5 of the optimizer and 1 of waiting leave 2.5, beside 0.5 that the loss took itself
    assert times == {"": 21.0, "body": 10.0, "head": 2.0, OUTSIDE: 3.0, "<optimizer>": 5.0, "<data>": 1.0}
    assert sum(map(step.own, step.nodes)) == 21.0
    assert step.own(step.root) == 0.0
    assert step.word == "step"


def test_findings_about_the_update_and_the_wait_lead_to_their_rows(trained):
    places = {one["title"]: one["modules"] for one in limits(trained, step_of(trained))["findings"]}

    assert places["The optimizer's step runs op by op through memory"] == ["<optimizer>"]
    assert places["Every step waits for its batch"] == ["<data>"]


def test_a_limit_covers_the_phases_that_its_time_covers(trained):
    step = step_of(trained)
    roofs = limits(trained, step)["roofs"]

    # forward and backward by module, all 80 bytes of the optimizer in its own row, everything in the whole
    wanted = {"": 4.5, "body": 3.0, "head": 0.3, OUTSIDE: 0.4, "<optimizer>": 0.8, "<data>": 0.0}
    assert by_path(step, limit_figure(step, roofs)) == pytest.approx(wanted)


def test_an_optimizer_that_was_not_timed_by_itself_is_outside_with_its_time_and_limit(trained):
    whole = replace(trained, timing=replace(trained.timing, optimizer=None))
    step = step_of(whole)

    assert "<optimizer>" not in {node.path for node in step.nodes}
    assert by_path(step, step.figure())[OUTSIDE] == 8.0
    assert by_path(step, limit_figure(step, limits(whole, step)["roofs"]))[OUTSIDE] == pytest.approx(0.4 + 0.8)


def without_backward_by_module(profile):
    rows = [replace(one, backward_latency=None) for one in profile.root.children]
    return replace(profile, root=replace(profile.root, children=tuple(rows), backward_latency=None))


def test_a_backward_that_is_not_timed_by_module_has_a_row_of_its_own_with_its_time_and_limit(trained):
    looped = without_backward_by_module(trained)
    step = step_of(looped)

    # 21 s less 4 forward, 8.5 backward, 5 of the optimizer and 1 of waiting leave 2.5
    wanted = {"": 21.0, "body": 3.0, "head": 1.0, OUTSIDE: 2.5, "<backward>": 8.5, "<optimizer>": 5.0, "<data>": 1.0}
    assert by_path(step, step.figure()) == wanted
    assert step.word == "step"
    # modules: their forward alone; 200 + 20 bytes of backward are in its own row
    least = {"": 4.5, "body": 1.0, "head": 0.1, OUTSIDE: 0.4, "<backward>": 2.2, "<optimizer>": 0.8, "<data>": 0.0}
    assert by_path(step, limit_figure(step, limits(looped, step)["roofs"])) == pytest.approx(least)
    assert (step.by_module, step.apart["<backward>"]) == (("forward",), ("backward", "recompute"))


def test_a_step_of_which_only_the_forward_is_timed_is_a_forward(trained):
    alone = Timing(forward=trained.timing.forward)
    forward = replace(without_backward_by_module(trained), timing=alone)
    step = step_of(forward)

    assert step.word == "forward"
    assert by_path(step, step.figure()) == {"": 4.0, "body": 3.0, "head": 1.0, OUTSIDE: None}
    found = by_path(step, limit_figure(step, limits(forward, step)["roofs"]))
    assert found == pytest.approx({"": 1.5, "body": 1.0, "head": 0.1, OUTSIDE: 0.4})


def test_without_times_the_optimizer_still_has_its_limit_apart():
    head = moving("head", "Head", 10, 20, 30)
    counted = Profile(
        rooted(module("", "Net", head)), trained=True, ceilings=CEILINGS, environment=Environment(dtype="float32")
    )
    step = step_of(counted)

    assert step.whole is None
    found = by_path(step, limit_figure(step, limits(counted, step)["roofs"]))
    assert found == pytest.approx({"": 0.6, "head": 0.3, "<optimizer>": 0.3})


def test_a_time_of_another_device_names_it(trained):
    figure = step_of(trained).figure("an AMD EPYC")

    assert figure.label == "time on an AMD EPYC"
    assert "open" not in figure.views
    assert limit_figure(step_of(trained), limits(trained, step_of(trained))["roofs"], "H100").label == "limit on H100"
