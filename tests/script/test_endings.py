"""However a script ends, what was profiled is kept, and only the script itself is heard on stdout."""

import pytest
from script.running import SCRIPTS, plain, profiled, start

INTERRUPTED = 130
AS_PYTHON_ENDS = {INTERRUPTED, -2, 1}
"""A shell calls death by the signal 130; Python ends with 1 if code that runs at exit compiles a text, as a library's may."""


@pytest.mark.parametrize("at", ["2", "5", "6", "9"])
def test_ctrl_c_ends_the_script_as_it_would_without_us(at):
    done = profiled("interrupted.py", at)

    assert done.code == INTERRUPTED
    alone = plain("interrupted.py", at)
    assert alone.code in AS_PYTHON_ENDS
    assert done.out == alone.out
    assert "KeyboardInterrupt" in done.err
    assert "KeyboardInterrupt" in alone.err


def test_ctrl_c_before_the_window_says_how_many_steps_were_seen():
    assert "interrupted.py ended after 2 steps" in profiled("interrupted.py", "2").said[0]


def test_ctrl_c_within_the_counted_step_keeps_what_there_is():
    """The signal comes after backward, before the optimizer's step."""
    done = profiled("interrupted.py", "5")

    assert done.profile.macs == 3 * 6 * 2
    assert done.profile.backward.macs == 3 * 6 * 2
    assert done.profile.optimizer.flops == 0
    assert "The loop ended within step 5" in done.err


def test_ctrl_c_within_the_window_keeps_the_whole_step_and_the_times_so_far():
    seen = profiled("interrupted.py", "8", flags=("--steps", "5-9")).profile

    assert seen.optimizer.flops > 0
    assert len(seen.timing.step.samples) == 2  # steps 6 and 7


def test_an_exception_within_the_counted_step_keeps_what_ran_before_it():
    seen = profiled("raises.py", "5").profile

    assert seen["first"].macs == 3 * 6 * 5
    assert seen["second"].macs == 0


def test_an_exception_after_the_window_changes_nothing():
    seen = profiled("raises.py", "9").profile

    assert seen["first"].macs == 3 * 6 * 5
    assert seen["second"].macs == 3 * 5 * 2


def test_a_model_that_raises_in_its_first_forward_is_named():
    done = profiled("by_hand.py", "wide")

    assert (done.code, plain("by_hand.py", "wide").code) == (1, 1)
    assert done.said == ["flopsight: by_hand.py ended within the first forward of Sequential, so nothing was profiled."]


def test_a_script_with_a_module_call_of_its_own_that_closes_stdout_runs_as_without_us():
    done, alone = profiled("hostile.py", flags=("--step", "2")), plain("hostile.py")

    assert (done.code, done.out) == (alone.code, alone.out) == (0, "6 calls\n")
    assert "Traceback" not in done.err
    assert (done.profile.root.kind, done.profile.macs, done.profile.root.calls) == ("Linear", 3 * 4 * 2, 1)


@pytest.mark.parametrize("fault", ["raises", "misspelt", "missing"])
def test_a_module_that_cannot_be_imported_is_shown_as_python_shows_it(tmp_path, fault):
    """Imports run inside a wrapper of ours once torch is there; what Python hides of its own frames stays hidden."""
    words = (SCRIPTS / "imports.py", fault)
    done = start(("-m", "flopsight", "run", *words), tmp_path)

    assert done.code == 1
    assert "importlib" not in done.err
    assert done.err.startswith(start(words, tmp_path).err)
    assert done.said == [
        "flopsight: imports.py ended without a call of any model with parameters, so nothing was profiled."
    ]
