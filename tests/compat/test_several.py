"""Several profilers, several models, several forwards: everyone counts what is theirs, once."""

import threading

import pytest
import torch
from compat.profiling import FLOPS, X, both_ways, profiled
from torch import nn
from toys import HIDDEN, LINEAR_FLOPS, MACS, OUT, PARAMS, ROWS, UP, WIDE, Net, Raises, Trouble

from flopsight import FlopsProfiler, TIDSProfiler


@both_ways
def test_two_profilers_of_one_model_each_count_it_once(prepare):
    model = prepare(Net())
    first, second = FlopsProfiler(model), TIDSProfiler(model)

    first.start_profile()
    second.start_profile()
    model(X)
    first.stop_profile()  # in the order of the start, not the reverse
    second.stop_profile()

    for prof in (first, second):
        assert (prof.get_total_flops(), prof.profile.root.calls) == (FLOPS, 1)
        assert prof.profile.root.latency <= prof.get_total_duration()


@both_ways
def test_profilers_of_a_model_and_of_its_part_each_count_their_own(prepare):
    part = prepare(Net())
    whole = nn.Sequential(part, nn.Linear(OUT, OUT, bias=False))
    inner, outer = FlopsProfiler(part), FlopsProfiler(whole)

    inner.start_profile()
    outer.start_profile()
    whole(X)
    outer.stop_profile()
    inner.stop_profile()

    assert inner.get_total_macs() == MACS
    assert outer.get_total_macs() == MACS + ROWS * OUT * OUT
    assert outer.profile["0.up"].macs == inner.profile["up"].macs == UP
    assert inner.profile.root.calls == outer.profile.root.calls == outer.profile["0"].calls == 1


def test_two_profilers_may_overlap():
    model = Net()
    early, late = FlopsProfiler(model), FlopsProfiler(model)

    early.start_profile()
    model(X)
    late.start_profile()
    model(X)
    early.stop_profile()
    model(X)
    late.stop_profile()

    assert early.get_total_macs() == late.get_total_macs() == 2 * MACS


def test_another_model_does_not_count():
    model, other = Net(), Net()
    prof = FlopsProfiler(model)

    prof.start_profile()
    model(X)
    other(X)
    prof.stop_profile()

    assert prof.get_total_macs() == MACS


@both_ways
def test_another_model_on_another_thread_does_not_count(prepare):
    model = prepare(Net())
    prof = FlopsProfiler(model)
    prof.start_profile()
    thread = threading.Thread(target=lambda: Net()(X))
    thread.start()
    model(X)
    thread.join()
    prof.stop_profile()

    assert (prof.get_total_flops(), prof.profile.root.calls) == (FLOPS, 1)


@both_ways
def test_gradient_accumulation_sums_work_and_time(prepare):
    model = prepare(Net())
    prof = FlopsProfiler(model)
    prof.start_profile()
    seconds = []
    for _ in range(4):
        model(X).sum().backward()
        seconds.append(prof.get_total_duration())
    prof.stop_profile()

    assert prof.get_total_flops() == 4 * FLOPS
    assert prof.get_total_macs() == 4 * MACS
    assert prof.profile["up"].calls == 4
    assert seconds == sorted(seconds)
    assert seconds[-1] > seconds[0]
    assert prof.get_total_params() == PARAMS


def test_forwards_of_different_sizes_add_up():
    model = Net()
    prof = FlopsProfiler(model)
    prof.start_profile()
    model(torch.ones(ROWS, WIDE))
    model(torch.ones(3 * ROWS, WIDE))
    prof.stop_profile()

    assert prof.get_total_macs() == 4 * MACS


def test_a_change_of_mode_between_two_forwards_is_seen():
    model = Net()
    prof = FlopsProfiler(model)
    prof.start_profile()
    model(X)
    model.eval()
    model(X)
    prof.stop_profile()

    assert prof.get_total_flops() == FLOPS + LINEAR_FLOPS + 2 * ROWS * HIDDEN


def test_a_part_of_the_model_called_alone_counts_in_its_row():
    model = Net()
    prof = FlopsProfiler(model)
    prof.start_profile()
    model.up(X)
    prof.stop_profile()

    assert prof.get_total_macs() == prof.profile["up"].macs == UP
    assert prof.profile.root.calls == 0


def test_after_a_model_that_raised_a_good_one_counts_as_ever():
    bad = FlopsProfiler(Raises())
    bad.start_profile()
    with pytest.raises(Trouble):
        bad.model(X)

    good = profiled(Net())

    assert (good.get_total_flops(), good.profile.root.calls) == (FLOPS, 1)
    assert bad.get_total_macs() == UP  # what ran before it raised can be asked for
    assert any("Trouble" in str(doubt) for doubt in bad.profile.caveats)


def test_several_forwards_take_several_batches():
    prof = profiled(Net(), times=3)

    assert prof.profile.batch_size == 3 * ROWS
    assert prof.profile.throughput == pytest.approx(3 * ROWS / prof.get_total_duration())


def test_parts_that_are_called_one_after_the_other_take_one_batch():
    model = nn.Sequential(nn.Linear(WIDE, WIDE), nn.Linear(WIDE, OUT))
    prof = FlopsProfiler(model)

    prof.start_profile()
    model[1](model[0](X))
    prof.stop_profile()

    assert prof.profile.batch_size == ROWS
