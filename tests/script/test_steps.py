"""Which step is profiled: where a step ends, what is passed over, and what is said when it is never reached."""

import pytest
from script.running import plain, profiled


def notes(done):
    return " ".join(done.err.split())


def test_a_step_that_holds_a_validation_is_passed_over():
    """Five steps an epoch, then a validation: step 5 begins with it."""
    done = profiled("vision.py")

    assert done.profile.step == 6
    assert "Step 6 is shown instead of step 5, which is not like the others: it called a model in eval mode" in notes(
        done
    )
    assert done.profile.root.calls == 1


def test_a_validation_is_left_out_of_the_times_of_a_window():
    done = profiled("vision.py", "--epochs", "3", flags=("--steps", "3-6"))

    assert done.profile.step == 3
    assert len(done.profile.timing.step.samples) == 3  # steps 4, 6 and 7; step 5 held the validation
    assert "FLOPs per step change" not in notes(done)


@pytest.mark.parametrize(("asked", "shown"), [("0", 3), ("3", 3), ("5", 5), ("6", 7)])
def test_a_step_whose_update_the_gradient_scaler_skipped_is_passed_over(asked, shown):
    """The scale is too large in steps 0, 1 and 2, and again in step 6."""
    done = profiled("amp.py", flags=("--step", asked))

    assert done.profile.step == shown
    assert done.profile.optimizer.flops > 0
    assert ("the gradient scaler skipped its update" in notes(done)) == (int(asked) != shown)


@pytest.mark.parametrize("step", ["1", "2"])
def test_the_first_steps_can_be_profiled_too(step):
    first, usual = profiled("distillation.py", flags=("--step", step)).profile, profiled("distillation.py").profile

    assert first.step == int(step)
    student = {path: node.total for path, node in first.nodes.items() if path.startswith("Student")}
    assert student == {path: node.total for path, node in usual.nodes.items() if path in student}


def test_step_0_of_a_script_with_one_model_begins_with_its_first_call():
    seen = profiled("vision.py", flags=("--step", "0")).profile

    assert seen.step == 0
    assert seen.macs == profiled("vision.py").profile.macs
    assert seen.optimizer.flops == profiled("vision.py").profile.optimizer.flops
    assert seen.outside.backward.macs == 0


def test_step_0_that_begins_with_a_look_of_the_teacher_is_known_only_after_it():
    done = profiled("distillation.py", flags=("--step", "0"))

    assert done.profile.step == 1
    assert "Step 1 is shown instead of step 0" in notes(done)


def test_step_0_of_several_optimizers_is_known_only_after_it():
    done = profiled("gan.py", flags=("--step", "0"))

    assert done.profile.step == 1
    assert done.profile.macs == profiled("gan.py").profile.macs
    assert "Step 1 is shown instead of step 0" in notes(done)


def test_a_loop_that_makes_a_new_optimizer_for_every_step_has_as_many_steps():
    done = profiled("fresh.py", flags=("--steps", "5-8"))

    assert done.out == plain("fresh.py").out
    assert (done.profile.step, done.profile.macs, done.profile.root.calls) == (5, 3 * 4 * 2, 1)
    assert len(done.profile.timing.step.samples) == 3


def test_where_a_step_is_a_forward_the_backward_after_it_is_said_to_be_left_out():
    done = profiled("by_hand.py")

    assert done.out == plain("by_hand.py").out
    assert done.profile.macs == 3 * (5 * 4 + 4 * 2)
    assert done.profile.backward.flops == 0
    assert "a backward that follows it is not part of the step" in notes(done)
    assert "a backward that follows it" not in notes(profiled("inference.py"))


def test_a_forward_can_be_a_step_where_an_optimizer_is_too():
    seen = profiled("vision.py", flags=("--per", "forward")).profile

    assert seen.macs == profiled("vision.py").profile.macs
    assert not seen.trained


@pytest.mark.parametrize(
    ("script", "flags", "said"),
    [
        ("gan.py", ("--step", "30"), "gan.py ended after 8 steps, before step 30 (counted from 0) was over"),
        ("inference.py", ("--step", "9"), "inference.py ended after 9 forwards of Classifier, before step 9"),
        ("inference.py", ("--per", "optimizer"), "inference.py ended without a step of any optimizer"),
        ("gan.py", ("--model", "Unet"), "No module of class Unet was called in step 5"),
        ("inference.py", ("--model", "Unet"), "without a call of any module of class Unet (called were Classifier,"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_script_that_ends_before_the_step_is_told_how_far_it_came(script, flags, said):
    done = profiled(script, flags=flags)

    assert done.code == 0
    assert not done.files
    assert len(done.said) == 1
    assert said in done.said[0]


def test_the_step_that_is_advised_is_one_that_can_be_had():
    advice = profiled("gan.py", flags=("--step", "30")).said[0].rpartition("--step ")[2].rstrip(".")

    assert profiled("gan.py", flags=("--step", advice)).profile.step == int(advice)


def test_work_after_the_last_step_is_not_taken_for_one():
    """Two epochs of five steps: what comes after the last is a validation, and no step 10."""
    done = profiled("vision.py", flags=("--step", "10"))

    assert not done.files
    assert "ended after 10 steps, before step 10" in done.said[0]


@pytest.mark.parametrize("name", ["Generator", "__main__.Generator"])
def test_a_model_can_be_named_by_its_class(name):
    seen = profiled("gan.py", flags=("--model", name)).profile

    assert seen.root.kind == "Generator"
    assert seen["0"].macs == 5 * 4 * 16
    assert seen.batch_size == 5


def test_a_base_class_names_a_model_too():
    assert profiled("distillation.py", flags=("--model", "Student")).profile.root.kind == "Student"
