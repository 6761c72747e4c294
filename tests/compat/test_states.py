"""Profilers used out of order: each gives the right numbers or one clear error."""

from contextlib import suppress

import pytest
from compat.profiling import FLOPS, KINDS, X, both_ways, profiled
from torch import nn
from toys import MACS, OUT, ROWS, UP, Net

from flopsight import FlopsProfiler
from flopsight.errors import InputError, StateError

ASKS = ["get_total_flops", "get_total_macs", "get_total_params", "get_total_duration", "print_model_profile"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ask", [*ASKS, "print_model_aggregated_profile"])
def test_asking_before_anything_was_profiled_is_one_clear_error(kind, ask):
    prof = kind(Net())

    for prepare in (lambda: None, prof.start_profile, prof.stop_profile):
        prepare()
        with pytest.raises(StateError, match=r"call start_profile\(\), run the model, then ask"):
            getattr(prof, ask)()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page", ["print_model_profile", "print_model_aggregated_profile"])
@pytest.mark.parametrize("value", ["x", -2])
def test_a_depth_or_a_number_of_modules_that_is_none_is_refused(kind, page, value):
    prof = profiled(Net(), kind)

    with pytest.raises(InputError, match=f"module_depth must be a whole number.*, not {value!r}"):
        getattr(prof, page)(module_depth=value)
    with pytest.raises(InputError, match=f"top_modules must be a whole number.*, not {value!r}"):
        getattr(prof, page)(top_modules=value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_without_a_start_is_harmless(kind):
    prof = kind(Net())

    prof.stop_profile()
    prof.end_profile()
    prof.reset_profile()

    assert not prof.started


@pytest.mark.parametrize("kind", KINDS)
@both_ways
def test_a_profiler_started_twice_counts_once(kind, prepare):
    model = prepare(Net())
    prof = kind(model)

    prof.start_profile()
    prof.start_profile()
    model(X)
    prof.stop_profile()

    assert (prof.get_total_flops(), prof.profile.root.calls) == (FLOPS, 1)


def test_a_second_start_forgets_what_was_seen_before():
    model = Net()
    prof = profiled(model, times=3)

    prof.start_profile()
    model(X)
    prof.stop_profile()

    assert prof.get_total_macs() == MACS


@pytest.mark.parametrize("kind", KINDS)
def test_results_can_be_read_after_the_end(kind):
    prof = profiled(Net(), kind)
    before = prof.get_total_flops(), prof.get_total_macs(), prof.get_total_params(), prof.get_total_duration()

    prof.end_profile()
    prof.end_profile()

    assert before == (prof.get_total_flops(), prof.get_total_macs(), prof.get_total_params(), prof.get_total_duration())
    assert prof.profile["up"].macs == UP


def test_calls_after_the_stop_do_not_count():
    model = Net()
    prof = profiled(model)

    model(X)

    assert prof.get_total_macs() == MACS


@both_ways
def test_a_reset_forgets_and_goes_on(prepare):
    model = prepare(Net())
    prof = FlopsProfiler(model)
    prof.start_profile(ignore_list=[nn.BatchNorm1d])
    model(X)
    model(X)

    prof.reset_profile()
    model(X)
    prof.stop_profile()

    assert prof.get_total_macs() == MACS
    assert prof.profile["norm"].ignored  # the list that it was started with still holds


def test_a_reset_after_the_stop_forgets():
    prof = profiled(Net())

    prof.reset_profile()

    with pytest.raises(StateError):
        prof.get_total_flops()


def test_modules_can_be_ignored_in_a_loop_too():
    prof = profiled(Net(), ignore_list=["up", nn.BatchNorm1d, nn.Dropout])

    assert prof.get_total_macs() == MACS - UP
    assert prof.get_total_flops() == 2 * (MACS - UP) + ROWS * OUT


def test_a_loop_that_raises_before_the_end_leaves_nothing_behind():
    call = nn.Module.__call__

    def train():
        model = Net()
        prof = FlopsProfiler(model)
        prof.start_profile()
        model(X)
        assert nn.Module.__call__ is not call
        raise ValueError

    with suppress(ValueError):  # which does not keep the frame, as pytest.raises does
        train()

    assert nn.Module.__call__ is call
