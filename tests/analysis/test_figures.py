"""The book of figures: each figure once, readable by every view that it names; one new entry reaches them all."""

from dataclasses import replace

import pytest
from profiles import lenet, module, rooted, stack

from flopsight.analysis.compare import compare
from flopsight.analysis.figures import _ALL, BOOK, UNITS, VIEWS, Figure, figure, own_seconds, shown
from flopsight.analysis.report.page_data import report
from flopsight.errors import InputError
from flopsight.integrations.pytest_plugin import shares
from flopsight.integrations.trackers import scalars
from flopsight.render import render
from flopsight.render.side_by_side import render as side_by_side
from flopsight.results.comm import CommRow
from flopsight.results.costs import Cost, Phases
from flopsight.results.job import Job
from flopsight.results.profile import Profile
from flopsight.results.records import PHASES, Parameter
from flopsight.results.sweep import Point
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import World

READERS = {
    "rows": ("of_node", "of_own"), "memory": ("of_node",), "csv": ("of_node",), "page": ("of_node",), "open": ("of_node",),
    "diff": ("of_profile",), "module": ("of_own",), "models": ("of_profile",), "sweep": ("of_profile",),
    "ranks": ("of_profile",), "log": ("of_profile",), "served": (),
}  # fmt: skip
SENT = CommRow("all_gather", "forward", calls=2, bytes=64, wire_bytes=48, group_size=2, dim="dp")


def trained():
    """A root with one child; every figure of either is a number of its own."""
    child = module(
        "fc", "Linear", params=(Parameter(1, "w", 100, itemsize=4, state_bytes=800), Parameter(2, "b", 10, itemsize=4, trainable=False)),
        latency=0.2, backward_latency=0.5, saved=64, comm=(SENT,), own_peak_bytes=16, allocated_bytes=72, calls=3,
        host_latency=0.05, stream_latency=0.25,
    )  # fmt: skip
    child = replace(
        child, own=Phases(Cost(40, 90, 500), Cost(80, 170, 900), recompute=Cost(40, 80, 450), optimizer=Cost(0, 11, 30))
    )
    root = module("", "Net", child, flops=7, moved=20, latency=0.3, backward_latency=0.6, saved=8)
    return Profile(
        rooted(root), timing=Timing(forward=Stat((0.4,)), backward=Stat((0.7,)), step=Stat((1.25,))), trained=True,
        batch_size=5, tokens=50, peak_bytes=4096,
    )  # fmt: skip


OF_PROFILE = {
    "params": 110, "active_params": 110, "trainable_params": 100, "param_bytes": 440, "macs": 40, "flops": 97, "bytes": 520,
    "backward_macs": 80, "backward_flops": 170, "backward_pass_flops": 170 + 80, "recompute_flops": 80,
    "optimizer_flops": 11, "step_flops": 97 + 170 + 80 + 11, "activation_bytes": 72, "peak_bytes": 4096, "comm_bytes": 48,
    "unknown_calls": 0, "latency": 0.4, "backward_latency": 0.7, "optimizer_latency": None, "step_latency": 1.25,
    "iteration_latency": None, "data_wait": None, "time": 1.25, "throughput": 4.0, "tokens_per_second": 40.0, "mfu": None,
    "hfu": None,
}  # fmt: skip
OF_NODE = {
    "calls": 3, "params": 110, "active_params": 110, "trainable_params": 100, "param_bytes": 440, "macs": 40, "flops": 90,
    "bytes": 500, "backward_macs": 80, "backward_flops": 170, "backward_pass_flops": 250, "recompute_flops": 80,
    "optimizer_flops": 11, "step_flops": 351, "own_macs": 40, "own_flops": 90, "own_bytes": 500, "activation_bytes": 64,
    "allocated_bytes": 72, "grad_bytes": 400, "optimizer_bytes": 800, "peak_bytes": 16, "comm_bytes": 48, "latency": 0.2,
    "backward_latency": 0.5, "host_latency": 0.05, "stream_latency": 0.25, "idle": pytest.approx(0.05),
    "flops_per_second": 90 / 0.2, "wall_flops_per_second": 90 / 0.25,
}  # fmt: skip
OWN_OF_ROOT = {
    "calls": 1, "params": 0, "active_params": 0, "macs": 0, "flops": 7, "bytes": 20, "backward_macs": 0, "backward_flops": 0,
    "backward_pass_flops": 0, "recompute_flops": 0, "optimizer_flops": 0, "step_flops": 7, "activation_bytes": 8,
    "peak_bytes": 0, "comm_bytes": 0, "latency": pytest.approx(0.1), "backward_latency": pytest.approx(0.1),
}  # fmt: skip


def test_every_figure_of_a_whole_model_is_read_by_arithmetic():
    assert {key: one.read(trained()) for key, one in BOOK.items() if one.of_profile} == OF_PROFILE


def test_every_figure_of_a_module_is_read_by_arithmetic():
    assert {key: one.of_node(trained()["fc"]) for key, one in BOOK.items() if one.of_node} == OF_NODE


def test_every_figure_of_a_module_without_its_submodules_is_read_by_arithmetic():
    assert {key: one.of_own(trained().root) for key, one in BOOK.items() if one.of_own} == OWN_OF_ROOT


def test_a_figure_stands_once_and_every_view_that_it_names_can_read_it():
    assert len(BOOK) == len(_ALL)
    assert set(READERS) == set(VIEWS)
    for one in BOOK.values():
        assert one.unit in UNITS
        assert one.phase in ("", *PHASES)
        assert one.part_of in ("", *BOOK)
        assert one.views, f"nothing shows {one.key}"
        for view in one.views.split():
            assert all(getattr(one, reader) for reader in READERS[view]), (one.key, view)


@pytest.mark.parametrize("make", [trained, stack, lenet])
def test_submodules_add_up_where_the_book_says_so(make):
    profile = make()
    for one in BOOK.values():
        if one.of_own and one.adds and one.of_node(profile.root) is not None:
            parts = [one.of_own(node) for node in profile.walk()]
            if None not in parts:
                assert sum(parts) == pytest.approx(one.of_node(profile.root)), one.key


def test_a_time_without_the_submodules_is_never_below_zero():
    assert own_seconds(module("", "Net", module("a", "A", latency=0.7), latency=0.6)) == 0.0
    assert own_seconds(module("", "Net", module("a", "A", latency=0.7))) is None


def test_what_is_no_news_is_left_out_of_views_of_whole_models():
    assert BOOK["active_params"].read(lenet()) == BOOK["params"].read(lenet())
    assert BOOK["active_params"].telling(lenet()) is None
    forward = Profile(rooted(module("", "Net", flops=8, saved=64)))
    assert BOOK["activation_bytes"].read(forward) == 64
    assert BOOK["activation_bytes"].telling(forward) is None
    assert BOOK["backward_flops"].read(forward) is None


def test_rates_are_better_if_they_are_larger_and_depend_on_a_clock():
    assert {key for key, one in BOOK.items() if one.more_is_better} == {
        "flops_per_second", "wall_flops_per_second", "throughput", "tokens_per_second", "mfu", "hfu", "most_tokens_per_second",
        "measured_tokens_per_second",
    }  # fmt: skip
    assert not any(one.is_time for one in BOOK.values() if one.unit in ("count", "bytes"))


def test_a_figure_that_cannot_be_budgeted_is_refused_with_those_that_can():
    with pytest.raises(InputError, match=r"no figure 'flop'. Did you mean 'flops'\? Figures: params, active_params, "):
        figure("flop")
    with pytest.raises(InputError, match="no figure 'own_flops'"):
        figure("own_flops")


def test_one_new_entry_reaches_every_view(monkeypatch):
    twice = Figure(
        "twice_macs", "twice the MACs", "count", "two for each", lambda p: 2 * p.macs, lambda n: 2 * n.macs,
        lambda n: 2 * n.own.macs, head="2 MACs", views=" ".join(VIEWS),
    )  # fmt: skip
    monkeypatch.setitem(BOOK, "twice_macs", twice)
    profile, other = trained(), Profile(rooted(module("", "Net", macs=3)))

    for view in ("tree", "table", "markdown", "latex", "memory"):
        assert "2 MACs" in render(profile, view, **({"width": 250} if view in ("tree", "table", "memory") else {}))
    assert "twice_macs" in render(profile, "csv").splitlines()[0].split(",")
    (column,) = [one for one in report(profile)["modules"]["metrics"] if one["id"] == "twice_macs"]
    # the model, its layer, and the row of the optimizer's step, which has no MACs
    assert (column["total"], column["own"], column["shown"]) == ([80, 80, 0], [0, 80, 0], True)
    assert compare(profile, other)["twice_macs"].after == 6
    assert "twice_macs" in [change.name for change in compare(profile, other).modules[0].changes]
    assert "twice the MACs" in side_by_side([profile], ["a"]).splitlines()[0]
    assert Point({}, profile).row["twice_macs"] == 80
    job = Job({0: replace(profile, world=World(size=2, rank=0))}, size=2)
    assert job.values("twice_macs") == {0: 80}
    assert "2 MACs" in render(job, "tree").splitlines()[2]
    assert scalars(profile)["flopsight/twice_macs"] == 80
    assert "fc" in shares(profile, "twice_macs")


def test_a_tensor_that_a_module_holds_under_two_names_changes_once():
    tied = (Parameter(1, "w", 100), Parameter(1, "again", 100))
    before, after = (Profile(rooted(module("", "Net", params=params))) for params in ((), tied))

    (changed,) = compare(before, after).modules
    assert [(change.name, change.after) for change in changed.changes] == [("params", 100)]


def test_a_sweep_moves_the_bytes_of_the_forward_as_every_other_view_does():
    profile = trained()

    assert Point({}, profile).row["bytes"] == 520
    assert compare(profile, profile)["bytes"].after == 520


def test_ranks_are_compared_by_any_figure_of_the_book():
    ranks = {
        rank: Profile(rooted(module("", "Net", flops=flops)), world=World(size=2, rank=rank), peak_bytes=64)
        for rank, flops in ((0, 10), (1, 30))
    }
    job = Job(ranks, size=2)

    assert job.values("memory") == job.values("peak_bytes") == {0: 64, 1: 64}
    assert job.imbalance("step_flops") == 0.5, "30 over a mean of 20"
    with pytest.raises(InputError, match="Ranks have no figure 'own_macs'"):
        job.values("own_macs")


def test_the_views_of_a_figure_are_those_that_it_names():
    assert [one.key for one in shown("rows")] == [
        "params", "active_params", "macs", "flops", "backward_pass_flops", "activation_bytes", "latency", "backward_latency",
    ]  # fmt: skip
