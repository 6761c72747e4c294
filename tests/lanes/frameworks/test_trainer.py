"""The callback for transformers' Trainer, in real trainings of a tiny Llama."""

import pytest
from lanes.frameworks import tiny_llama
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import Trainer, TrainingArguments

import flopsight
from flopsight.integrations.transformers import FlopsightCallback


def make_trainer(folder, model=None, callbacks=None, **options):
    settings = {"max_steps": 6, "per_device_train_batch_size": tiny_llama.BATCH, "logging_steps": 100}
    settings |= {"use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "report_to": "none"} | options
    return Trainer(
        model or tiny_llama.model(),
        TrainingArguments(str(folder), **settings),
        train_dataset=tiny_llama.dataset(64),
        eval_dataset=tiny_llama.dataset(8),
        callbacks=callbacks,
    )


def train(folder, callback, model=None, **options):
    trainer = make_trainer(folder, model, **options)
    callback.attach(trainer)
    trainer.train()


def counted():
    return flopsight.count(tiny_llama.model().train(), kwargs=tiny_llama.batch(), train=True)


def modules(profile):
    """Every row that the model itself has, by path; the root's own work holds the loss, which the Trainer scales."""
    return {node.path: node for node in profile.walk() if node.path not in ("", "<outside>")}


def test_every_module_costs_what_count_says_forward_and_backward(tmp_path):
    callback = FlopsightCallback(steps=range(1, 4))

    train(tmp_path, callback)

    expected = modules(counted())
    found = modules(callback.profile)
    assert callback.profile.macs == tiny_llama.macs()
    assert callback.profile.params == tiny_llama.parameters()
    assert found.keys() == expected.keys()
    for path, node in expected.items():
        assert (found[path].forward, found[path].backward, found[path].calls) == (
            node.forward,
            node.backward,
            node.calls,
        )


def test_a_step_of_accumulated_gradients_is_all_its_batches(tmp_path):
    callback = FlopsightCallback(steps=range(1, 4))

    train(tmp_path, callback, gradient_accumulation_steps=3)

    profile = callback.profile
    assert profile.macs == 3 * tiny_llama.macs()
    assert (profile.batch_size, profile.tokens) == (3 * tiny_llama.BATCH, 3 * tiny_llama.BATCH * tiny_llama.TOKENS)
    for path, node in modules(counted()).items():
        assert profile[path].forward.flops == 3 * node.forward.flops
        # the second and third gradient are added to the first, one addition an element
        assert profile[path].backward.flops == 3 * node.backward.flops + 2 * node.params
    assert len(profile.timing.forward.samples) == 2


def test_the_optimizer_is_timed_and_counted(tmp_path):
    callback = FlopsightCallback(steps=range(1, 3))

    train(tmp_path, callback)

    assert callback.profile.optimizer.flops > tiny_llama.parameters()
    assert callback.profile.timing.optimizer.median > 0
    assert callback.profile.root.optimizer_bytes >= 2 * 4 * tiny_llama.parameters()  # Adam keeps two moments in float32


def test_the_figures_reach_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    callback = FlopsightCallback(steps=range(1, 3), save_to=tmp_path / "profile.json")

    train(tmp_path, callback, report_to="tensorboard", gradient_accumulation_steps=2)

    events = EventAccumulator(str(tmp_path / "events")).Reload()
    (macs,) = events.Scalars("train/flopsight/macs")
    assert macs.step == 3, "logged when steps 0, 1 and 2 were over"
    assert macs.value == 2 * tiny_llama.macs()
    profile = flopsight.load(tmp_path / "profile.json")
    assert profile.macs == macs.value
    (seconds,) = events.Scalars("train/flopsight/iteration_seconds")
    assert seconds.value == pytest.approx(profile.timing.iteration.median)


def test_an_evaluation_between_two_steps_is_no_part_of_either(tmp_path):
    callback = FlopsightCallback(steps=range(1, 4))

    train(tmp_path, callback, eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=2)

    assert callback.profile.macs == tiny_llama.macs()
    assert callback.profile[""].calls == 1
    assert not [caveat for caveat in callback.profile.caveats if "other shapes" in str(caveat)]


def test_only_the_phases_that_were_asked_for_are_kept_and_saved(tmp_path):
    callback = FlopsightCallback(steps=range(1, 4), save_to=tmp_path / "profile.json", phases=["forward"])

    train(tmp_path, callback)

    for profile in (callback.profile, flopsight.load(tmp_path / "profile.json")):
        assert profile.macs == tiny_llama.macs()
        assert profile.backward.flops == profile.optimizer.flops == 0
        assert profile.timing.backward is None
        assert "Left out by the settings: backward, optimizer." in str(profile)


def test_a_callback_that_is_passed_to_the_trainer_profiles_as_well(tmp_path):
    callback = FlopsightCallback(steps=[1])

    make_trainer(tmp_path, callbacks=[callback]).train()

    assert callback.profile.macs == tiny_llama.macs()


def test_losses_are_the_same_with_and_without_us(tmp_path):
    watched, plain = (make_trainer(tmp_path, logging_steps=1, seed=3) for _ in range(2))
    FlopsightCallback(steps=range(1, 4)).attach(watched)

    watched.train()
    plain.train()

    losses = [[log["loss"] for log in trainer.state.log_history if "loss" in log] for trainer in (watched, plain)]
    assert len(losses[0]) == 6
    assert losses[0] == losses[1]


def test_training_that_ends_before_the_window_says_how_many_steps_there_were(tmp_path):
    callback = FlopsightCallback(steps=range(50, 55))

    with pytest.warns(UserWarning, match="Training ended after 6 steps, before step 50"):
        train(tmp_path, callback)

    assert callback.profile is None


def test_a_model_that_raises_leaves_nothing_behind(tmp_path):
    model = tiny_llama.model()
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("no more")

    model.lm_head.register_forward_pre_hook(fail)

    with pytest.raises(RuntimeError, match="no more"):
        train(tmp_path, FlopsightCallback(steps=range(1, 4)), model)

    assert calls == [1, 1]  # that nothing is left is what the fixture of every test holds
