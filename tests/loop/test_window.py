"""A window of steps in a user's loop: totals, mean and spread per step, each by a clock that the test moves."""

import re
import threading

import pytest
import torch
import torch.nn.functional as F
from fake_clock import FakeClock
from leftovers import differences, process_state
from loop.loops import MACS, OUT, PARAMS, ROWS, WIDE, Descent, Layer, rows
from torch import nn

import flopsight
from flopsight.capture.time.clock import Clock
from flopsight.errors import InputError, StateError
from flopsight.loop.window import StepWindow
from flopsight.results.caveats import CountedLive, CutOff, NotCalled, ShapesChanged, Window


def train(window, model, optimizer, time, batches, *, paces=None, wait=0.0, glue=0.0):
    """The loop: wait for data, forward, a loss, backward, update."""
    for step, batch in enumerate(batches):
        time.pass_by(wait)
        model.pace = paces[step] if paces else 1.0
        optimizer.zero_grad()
        output = model(batch)
        time.pass_by(glue)
        output.sum().backward()
        optimizer.step()
        window.step()


def made(steps=range(2, 7), **options):
    time = FakeClock()
    model = Layer(time)
    optimizer = Descent(model.parameters(), time)
    return time, model, optimizer, StepWindow(model, optimizer, steps, clock=time.clock, **options)


def said(profile, kind):
    return [caveat for caveat in profile.caveats if isinstance(caveat, kind)]


def test_steps_2_to_6_are_five_steps_both_ends_included():
    time, model, optimizer, window = made(range(2, 7))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(10)])

    profile = window.profile
    forward, backward, update = 2 * MACS, 4 * MACS, PARAMS
    one_step = forward + backward + update + ROWS * OUT  # and the sum that is the loss
    assert profile.step == 2
    assert (profile.macs, profile.backward.macs) == (MACS, 2 * MACS)
    assert profile.root.total.total.flops == one_step
    (window_said,) = said(profile, Window)
    assert (window_said.first, window_said.last, window_said.timed) == (2, 6, 4)
    assert window_said.flops == 5 * one_step
    assert f"steps 2 to 6, both included: {5 * one_step:,} FLOPs in all, {one_step:,} a step" in str(window_said)


def test_the_note_on_a_window_of_one_step_names_that_step_alone():
    assert str(Window(5, 5, 1, 100)) == "Costs are those of step 5, counted as it ran; times are those of another step."


def test_times_are_those_of_single_steps_with_their_median_mean_and_spread():
    time, model, optimizer, window = made(range(2, 7))
    paces = [9.0, 9.0, 7.0, 1.0, 2.0, 4.0, 3.0, 9.0]  # step 2 is counted and left out of the times
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(8)], paces=paces, wait=0.25, glue=0.125)

    timing = window.profile.timing
    assert timing.forward.samples == (1.0, 2.0, 4.0, 3.0)
    assert timing.backward.samples == (2.0, 4.0, 8.0, 6.0)
    assert timing.optimizer.samples == (0.5, 0.5, 0.5, 0.5)
    assert timing.step.samples == tuple(3 * pace + 0.5 + 0.125 for pace in (1, 2, 4, 3))
    assert timing.iteration.samples == tuple(0.25 + 3 * pace + 0.5 + 0.125 for pace in (1, 2, 4, 3))
    assert timing.data_wait.samples == (0.25, 0.25, 0.25, 0.25)
    assert (timing.forward.median, timing.forward.mean, timing.forward.total) == (2.5, 2.5, 10.0)
    assert timing.forward.spread == pytest.approx((3.0 - 2.0) / 2.5)
    assert window.profile.throughput == ROWS / timing.iteration.median


def test_rows_of_modules_add_up_to_the_median_forward_of_the_window():
    time, model, optimizer, window = made(range(2, 7))
    with window:
        train(
            window, model, optimizer, time, [rows() for _ in range(8)], paces=[9.0, 9.0, 7.0, 1.0, 2.0, 4.0, 3.0, 9.0]
        )

    profile = window.profile
    assert profile.latency == 2.5  # of 1, 2, 4 and 3 seconds; no single step took that
    assert profile.root.latency == 2.5


def test_marks_around_every_module_are_in_a_minority_of_the_timed_steps_and_not_in_the_median():
    time, model, optimizer, _ = made(range(2, 7))

    def costly():
        time.pass_by(0.5)
        return time.seconds

    window = StepWindow(model, optimizer, range(2, 7), Clock(now=costly, mark=time.read))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(8)])

    timing = window.profile.timing
    assert timing.forward.samples == (1.0 + 4 * 0.5, 1.0, 1.0, 1.0)  # two modules, a mark at each end
    assert window.profile.latency == window.profile.root.latency == 1.0
    assert window.profile["linear"].latency is not None


def line(text, label):
    found = re.search(rf"^{re.escape(label)}: +(\S.*?) *$", text, re.MULTILINE)
    assert found, f"{label} is not in\n{text}"
    return found[1]


def test_the_summary_at_a_step_prints_rates_that_its_own_latencies_and_counts_give():
    time, model, optimizer, window = made(range(2, 5))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(6)], wait=0.25, glue=0.125)

    text = window.profile.render("deepspeed")

    forward_flops = 2 * MACS + ROWS * OUT  # the layer, and the sum that is the loss
    assert "Profile Summary at step 2:" in text
    assert line(text, "batch size per GPU") == str(ROWS)
    assert line(text, "params per gpu") == "16"
    assert line(text, "fwd MACs per GPU") == "64 MACs"
    assert line(text, "fwd flops per GPU") == str(forward_flops)
    assert line(text, "fwd latency") == "1.0 s"
    assert line(text, "bwd latency") == "2.0 s"
    assert line(text, "step latency") == "500.0 ms"
    assert line(text, "fwd FLOPS per GPU = fwd flops per GPU / fwd latency") == f"{forward_flops / 1.0} FLOPS"
    estimate = "bwd FLOPS per GPU = 2 * fwd flops per GPU / bwd latency"
    assert line(text, estimate) == f"{2 * forward_flops / 2.0} FLOPS"
    counted = "bwd FLOPS per GPU = counted bwd flops per GPU / bwd latency"
    assert line(text, counted) == f"{4 * MACS / 2.0} FLOPS"
    both = "fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency)"
    assert line(text, both) == f"{3 * forward_flops / 3.0} FLOPS"
    assert line(text, "iter latency") == "3.5 s"  # fwd + bwd + step, as the notations say
    assert line(text, "samples/second") == str(round(ROWS / 3.5, 2))


def test_flops_of_several_steps_never_stand_over_the_time_of_one():
    """The older profilers' AProfiler printed the FLOPs of five steps over the latency of one: 1296 TFLOPS."""
    time, model, optimizer, window = made(range(2, 7))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(8)])

    text = window.profile.render("aprofiler")

    assert line(text, "fwd latency") == "1.0 s"
    assert line(text, "fwd flops per GPU") == str(2 * MACS + ROWS * OUT)
    assert line(text, "fwd FLOPS per GPU = fwd flops per GPU / fwd latency") == f"{2 * MACS + ROWS * OUT}.0"


def test_steps_with_other_shapes_are_named_and_no_total_is_claimed():
    time, model, optimizer, window = made(range(1, 5))
    sizes = [ROWS, ROWS, 2 * ROWS, ROWS, 3 * ROWS, ROWS]
    with window:
        train(window, model, optimizer, time, [rows(size) for size in sizes])

    profile = window.profile
    (changed,) = said(profile, ShapesChanged)
    assert (changed.counted, changed.steps) == (1, (2, 4))
    assert "FLOPs per step change" in str(changed)
    (window_said,) = said(profile, Window)
    assert window_said.flops is None
    assert "in all" not in str(window_said)
    assert profile.macs == MACS


def test_steps_alike_are_not_said_to_change():
    time, model, optimizer, window = made(range(1, 5))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(6)])

    assert said(window.profile, ShapesChanged) == []


def test_accumulated_gradients_make_one_step_of_all_their_samples():
    time, model, optimizer, window = made(range(1, 4))
    with window:
        for _ in range(5):
            optimizer.zero_grad()
            for _ in range(3):
                model(rows()).sum().backward()
            optimizer.step()
            window.step()

    profile = window.profile
    assert profile.batch_size == 3 * ROWS
    assert (profile.macs, profile.backward.macs) == (3 * MACS, 6 * MACS)
    assert profile.timing.forward.median == 3.0
    assert profile.throughput == 3 * ROWS / (3 * 3.0 + 0.5)


def test_a_window_of_one_step_is_timed_by_the_one_after_it():
    time, model, optimizer, window = made(range(3, 4))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(6)], paces=[9, 9, 9, 9, 2.0, 9])

    profile = window.profile
    assert profile.step == 3
    assert profile.timing.forward.samples == (2.0,)
    assert profile["linear"].macs == MACS


def test_a_loop_that_ends_before_the_window_has_no_profile_and_says_why():
    time, model, optimizer, window = made(range(5, 8))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(3)])

    with pytest.raises(StateError, match="ran 3 steps, and the window begins at step 5"):
        window.profile


def test_a_window_from_step_0_that_is_not_entered_says_how_to_enter_it():
    time, model, optimizer, window = made([0])
    train(window, model, optimizer, time, [rows() for _ in range(3)])

    with pytest.raises(StateError, match="Step 0 began outside the window.*inside `with"):
        _ = window.profile


def test_a_loop_that_ends_after_the_counted_step_has_costs_and_a_latency_that_is_marked():
    time, model, optimizer, window = made(range(2, 7))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(3)])

    profile = window.profile
    assert profile.macs == MACS
    assert said(profile, CountedLive)
    assert profile.timing.forward.samples == (1.0,)


def idle(_model):
    """A step that calls no model."""


def elsewhere(_model):
    nn.Linear(WIDE, OUT)(rows()).sum().backward()


def on_a_thread(model):
    worker = threading.Thread(target=model, args=(rows(),))
    worker.start()
    worker.join()


@pytest.mark.parametrize("body", [idle, elsewhere, on_a_thread])
@pytest.mark.parametrize(("ran", "last"), [(3, 2), (5, 4), (9, 6)])
def test_a_loop_that_never_calls_the_model_is_told_so(body, ran, last):
    _, model, _, window = made(range(2, 7))
    with window:
        for _ in range(ran):
            body(model)
            window.step()

    profile = window.profile
    (doubt,) = said(profile, NotCalled)
    assert (doubt.first, doubt.last) == (2, last)
    assert "another object" in str(doubt)
    assert "another thread" in str(doubt)
    assert said(profile, CountedLive) == []
    assert profile.timing.forward is None


def test_a_loop_that_ends_within_the_counted_step_is_not_said_to_call_no_model():
    _, _, _, window = made(range(2, 7))
    with window:
        window.step()
        window.step()

    assert said(window.profile, NotCalled) == []
    assert said(window.profile, CutOff)


def test_a_loop_that_ends_within_the_window_has_the_times_of_the_steps_that_ran():
    time, model, optimizer, window = made(range(2, 7))
    with window:
        train(window, model, optimizer, time, [rows() for _ in range(5)])

    profile = window.profile
    assert len(profile.timing.forward.samples) == 2
    (window_said,) = said(profile, Window)
    assert (window_said.first, window_said.last, window_said.timed) == (2, 4, 2)
    assert window_said.flops == 3 * (2 * MACS + 4 * MACS + PARAMS + ROWS * OUT)


@pytest.mark.parametrize("failing", [2, 3])
def test_an_exception_in_the_loop_leaves_what_was_seen_and_nothing_else(failing):
    time, model, optimizer, window = made(range(2, 7))
    before = process_state()

    with pytest.raises(ZeroDivisionError), window:
        for step in range(10):
            optimizer.zero_grad()
            model(rows()).sum().backward()
            1 / (step - failing)
            optimizer.step()
            window.step()

    assert differences(before, process_state()) == []
    profile = window.profile
    assert (profile.macs, profile.backward.macs) == (MACS, 2 * MACS)
    assert bool(said(profile, CutOff)) == (failing == 2)
    assert profile.optimizer.flops == (0 if failing == 2 else PARAMS)


def test_outside_its_window_a_loop_runs_as_if_we_were_not_there():
    time, model, optimizer, window = made(range(3, 5))
    plain = {"call": nn.Module.__call__, "backward": torch.autograd.backward, "grad": torch.autograd.grad}
    untouched = []
    with window:
        for _ in range(8):
            now = {"call": nn.Module.__call__, "backward": torch.autograd.backward, "grad": torch.autograd.grad}
            untouched.append(all(now[name] is plain[name] for name in plain))
            train(window, model, optimizer, time, [rows()])

    # One step before the window is marked lightly, to know what steps of this loop look like.
    assert untouched == [True, True, False, False, False, True, True, True]


def test_two_windows_one_after_the_other_agree():
    profiles = []
    for _ in range(2):
        time, model, optimizer, window = made(range(1, 4))
        with window:
            train(window, model, optimizer, time, [rows() for _ in range(5)])
        profiles.append(window.profile)

    assert profiles[0].root == profiles[1].root
    assert profiles[0].timing == profiles[1].timing


def test_two_windows_over_one_loop_see_their_own_steps():
    time = FakeClock()
    model = Layer(time)
    optimizer = Descent(model.parameters(), time)
    early = StepWindow(model, optimizer, range(1, 3), clock=time.clock)
    late = StepWindow(model, optimizer, range(4, 6), clock=time.clock)
    with early, late:
        for _ in range(8):
            train(early, model, optimizer, time, [rows()])
            late.step()

    for window, first in ((early, 1), (late, 4)):
        assert window.profile.step == first
        assert (window.profile.macs, window.profile.backward.macs) == (MACS, 2 * MACS)


def test_a_profiler_of_one_forward_inside_the_counted_step_changes_neither():
    time, model, optimizer, window = made(range(1, 4))
    profiler = flopsight.FlopsProfiler(model)
    with window:
        for step in range(5):
            optimizer.zero_grad()
            if step in (1, 2):
                profiler.start_profile()
            output = model(rows())
            if step in (1, 2):
                profiler.stop_profile()
                assert profiler.get_total_macs() == MACS
            output.sum().backward()
            optimizer.step()
            window.step()

    assert (window.profile.macs, window.profile.backward.macs) == (MACS, 2 * MACS)
    assert window.profile.root.calls == 1


def test_a_recording_around_a_window_sees_every_step():
    time, model, optimizer, window = made(range(1, 3))
    with flopsight.recording(model) as r, window:
        train(window, model, optimizer, time, [rows() for _ in range(4)])

    assert r.profile.macs == 4 * MACS
    assert window.profile.macs == MACS


def test_the_public_name_needs_no_clock_and_saves_its_profile(tmp_path):
    model = nn.Sequential(nn.Linear(WIDE, OUT, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    with flopsight.step_profiler(model, optimizer, steps=range(2, 5)) as prof:
        for _ in range(6):
            optimizer.zero_grad()
            F.mse_loss(model(rows()), torch.zeros(ROWS, OUT)).backward()
            optimizer.step()
            prof.step()
    prof.profile.save(tmp_path / "step.json")

    loaded = flopsight.load(tmp_path / "step.json")
    assert loaded == prof.profile
    assert loaded.macs == MACS
    assert loaded.root.optimizer_bytes == 2 * 4 * PARAMS + 4
    assert len(loaded.timing.iteration.samples) == 2
    assert loaded.at_peak["inputs"] == 4 * ROWS * WIDE


def test_memory_of_the_counted_step_is_that_of_the_same_step_alone():
    model = nn.Sequential(nn.Linear(WIDE, 16), nn.Tanh(), nn.Linear(16, OUT))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(ROWS, WIDE)
    with flopsight.step_profiler(model, optimizer, steps=range(2, 4)) as prof:
        for _ in range(5):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            prof.step()

    alone = flopsight.count(model, (x,), train=True, optimizer=optimizer)
    assert prof.profile.activation_bytes == alone.activation_bytes == 4 * ROWS * 16
    assert prof.profile.root.optimizer_bytes == alone.root.optimizer_bytes
    assert prof.profile.at_peak["optimizer"] == alone.at_peak["optimizer"]
    assert prof.profile.at_peak["gradients"] == alone.at_peak["gradients"]


NO_WINDOWS = {
    "empty": (range(0), "not range(0, 0)."),
    "with a gap": ([3, 4, 6], "not (3, 4, 6)."),
    "negative": ([-1, 0], "not (-1, 0)."),
    "backwards": ([4, 3], "not (4, 3)."),
    "no whole numbers": ([1.0, 2.0], "not [1.0, 2.0]."),
    "nothing": (None, "not None."),
    "a number": (3, "not 3. Did you mean steps=range(3, 4)?"),
    "text": ("2-6", "not '2-6'. Did you mean steps=range(2, 7)?"),
    "a first and a last": ([2, 6], "not (2, 6). Did you mean steps=range(2, 7)?"),
}


@pytest.mark.parametrize("case", NO_WINDOWS)
def test_a_window_that_is_none_is_refused_and_says_what_steps_may_be(case):
    steps, said = NO_WINDOWS[case]

    with pytest.raises(InputError, match="consecutive and not negative") as refused:
        flopsight.step_profiler(nn.Linear(2, 2), steps=steps)

    assert str(refused.value).endswith(said)


@pytest.mark.parametrize("steps", [range(2, 4), [2, 3], (2, 3), iter([2, 3]), torch.tensor([2, 3]), {2: "a", 3: "b"}])
def test_steps_are_any_whole_numbers_in_a_row(steps):
    assert flopsight.step_profiler(nn.Linear(2, 2), steps=steps).steps == (2, 3)


NO_OPTIMIZERS = {
    "steps": (range(2, 7), "not range. Did you mean steps=range(2, 7)?"),
    "steps as a list": ([2, 3], "not list. Did you mean steps=[2, 3]?"),
    "parameters": (nn.Linear(2, 2).parameters(), "not generator."),
    "a list of parameters": (list(nn.Linear(2, 2).parameters()), "not list."),
    "a number": (3, "not int."),
}


@pytest.mark.parametrize("case", NO_OPTIMIZERS)
def test_what_takes_no_steps_is_refused_as_an_optimizer(case):
    optimizer, said = NO_OPTIMIZERS[case]

    with pytest.raises(InputError, match="optimizer must be a torch.optim.Optimizer") as refused:
        flopsight.step_profiler(nn.Linear(2, 2), optimizer)

    assert str(refused.value).endswith(said)
