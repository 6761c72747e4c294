"""What cannot be measured is refused in one sentence; what the model itself refuses arrives as the model said it."""

import pytest
import torch
from torch import nn
from toys import ROWS, UP, WIDE, BrokenStep, Net, Raises, RaisesInBackward, Trouble, rows

import flopsight
from flopsight.errors import InputError, StateError

MEASURES = [flopsight.count, flopsight.profile]


def refused(words, *args, measure=flopsight.count, **kwargs):
    with pytest.raises(InputError, match=words) as refusal:
        measure(*args, **kwargs)
    text = str(refusal.value)
    assert "\n" not in text
    assert text.endswith((".", "?"))
    return text


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("model", [None, lambda x: x, nn.Linear, torch.ones(2)])
def test_what_is_no_module_is_refused_by_its_type(measure, model):
    refused(type(model).__name__, model, (rows(),), measure=measure)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_name_is_a_target_and_one_that_names_nothing_says_what_does(measure):
    refused("'resnet18' names no model. Did you mean 'zoo:resnet18'?", "resnet18", (rows(),), measure=measure)


@pytest.mark.parametrize("make", [flopsight.recording, flopsight.FlopsProfiler, flopsight.step_profiler])
def test_profilers_refuse_what_is_no_module(make):
    with pytest.raises(InputError, match="must be a torch.nn.Module, not str"):
        make("resnet18")


@pytest.mark.parametrize("args", [3, {"x": 1}, {1, 2}, "text", 1.5])
def test_arguments_that_are_no_tuple_are_refused_with_a_hint(args):
    refused(r"args must be a tuple.*Did you mean args=\(x,\)", Net(), args)


def test_keyword_arguments_that_are_no_dictionary_are_refused():
    refused("kwargs must be a dictionary, not list", Net(), (), [("x", rows())])


@pytest.mark.parametrize("shape", [7, "abc", (4, "a"), (4, None)])
def test_a_shape_that_is_none_is_refused(shape):
    refused("input_shape must be a sequence of integers", Net(), input_shape=shape)


@pytest.mark.parametrize("shape", [(), (-4, 8)])
def test_a_shape_without_a_size_is_refused(shape):
    refused("at least one dimension, none negative", Net(), input_shape=shape)


@pytest.mark.parametrize("args", [(rows(),), [rows()], rows()])
def test_a_shape_and_arguments_are_one_too_many(args):
    refused("either input_shape or args", Net(), args, input_shape=(ROWS, WIDE))


@pytest.mark.parametrize("place", ["gpu", "cuda", None, True])
def test_another_place_to_count_than_real_or_meta_is_refused(place):
    refused(repr(place), Net(), (rows(),), on=place)


@pytest.mark.parametrize(
    ("name", "value"),
    [("repeats", 0), ("repeats", -3), ("repeats", 1.5), ("repeats", "3"), ("warmup", -1), ("warmup", None),
     ("batch_size", 0), ("batch_size", -1), ("batch_size", "4"), ("batch_size", True), ("repeats", True)],
)  # fmt: skip
def test_numbers_out_of_range_are_refused_by_name(name, value):
    refused(rf"{name} must be a whole number.*{value!r}", Net(), (rows(),), measure=flopsight.profile, **{name: value})


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda output: output, r"single number, but .* \[4, 2\]"),
        (lambda output: 3.0, "must be a tensor, but .* float"),
        (lambda output: None, "must be a tensor, but .* NoneType"),
        (lambda output: output.detach().sum(), "does not depend on any parameter"),
        (7, "loss must be a function of the model's output, not int"),
    ],
)
@pytest.mark.parametrize("measure", MEASURES)
def test_a_loss_that_is_none_is_refused(measure, loss, words):
    refused(words, Net(), (rows(),), train=True, loss=loss, measure=measure)


def test_an_output_without_a_gradient_cannot_be_trained():
    refused("output has no gradient", Net().requires_grad_(False), (rows(),), train=True)


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("loss", [None, lambda output: output.sum()])
def test_training_where_gradients_are_switched_off_says_so(around, loss):
    model, x = Net(), rows()

    with around():
        refused("train=True needs gradients.*no_grad", model, (x,), train=True, loss=loss)


def test_an_optimizer_of_another_model_is_refused():
    refused("another model", Net(), (rows(),), train=True, optimizer=torch.optim.SGD(Net().parameters(), lr=0.1))


def test_an_optimizer_that_is_none_is_refused():
    refused("must be a torch.optim.Optimizer, not int", Net(), (rows(),), train=True, optimizer=3)
    refused("torch.optim has no 'adamm'. Did you mean 'adam'?", Net(), (rows(),), train=True, optimizer="adamm")


def test_a_loss_or_an_optimizer_without_training_is_a_mistake():
    model = Net()

    refused("add train=True", model, (rows(),), loss=lambda output: output.sum())
    refused("add train=True", model, (rows(),), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


# -- what the model itself refuses


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("on_meta", [False, True])
@pytest.mark.parametrize("args", [(), (rows(), rows()), (torch.ones(ROWS, WIDE + 1),), ("text",)])
def test_inputs_that_the_model_refuses_raise_what_the_model_raises(measure, args, on_meta):
    model = Net()
    with pytest.raises(Exception) as own:
        model(*args)
    options = {"on": "meta"} if on_meta and measure is flopsight.count else {}

    with pytest.raises(type(own.value)) as ours:
        measure(model, args, **options)

    assert str(ours.value) == str(own.value)
    assert not isinstance(ours.value, flopsight.FlopsightError)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_model_that_raises_hands_over_what_ran_before(measure):
    model = Raises()

    with pytest.raises(Trouble) as problem:
        measure(model, (rows(),))

    assert problem.value is model.problem
    so_far = problem.value.flopsight_profile
    assert so_far.macs == so_far["up"].macs == UP
    assert so_far["down"].calls == 0


def test_a_loss_that_raises_hands_over_the_whole_forward():
    def loss(output):
        raise Trouble

    with pytest.raises(Trouble) as problem:
        flopsight.count(Net(), (rows(),), train=True, loss=loss)

    assert problem.value.flopsight_profile.macs == flopsight.count(Net(), (rows(),)).macs


def test_a_backward_or_a_step_that_raises_arrives_unchanged():
    model = Net()

    with pytest.raises(Trouble, match="in backward"):
        flopsight.count(RaisesInBackward(), (rows(),), train=True)
    with pytest.raises(Trouble, match="in the step") as problem:
        flopsight.count(model, (rows(),), train=True, optimizer=BrokenStep(model.parameters(), lr=0.1))

    assert problem.value.flopsight_profile.backward.macs > 0


def test_a_model_that_raises_only_while_it_is_timed_hands_over_its_count():
    calls = []

    class Tires(Net):
        def forward(self, x):
            calls.append(1)
            if len(calls) > 2:
                raise Trouble
            return super().forward(x)

    with pytest.raises(Trouble) as problem:
        flopsight.profile(Tires(), (rows(),))

    assert problem.value.flopsight_profile["up"].macs == UP


def test_an_exception_that_takes_no_attribute_arrives_all_the_same():
    class Closed(Exception):
        def __setattr__(self, name, value):
            if name.startswith("flopsight"):
                raise TypeError(name)
            super().__setattr__(name, value)

    model = Raises(Closed())

    with pytest.raises(Closed) as problem:
        flopsight.count(model, (rows(),))

    assert problem.value is model.problem


def test_an_interrupt_goes_through():
    with pytest.raises(KeyboardInterrupt):
        flopsight.profile(Raises(KeyboardInterrupt()), (rows(),))


def test_a_recording_keeps_what_ran_before_an_exception():
    model = Raises()

    with pytest.raises(Trouble), flopsight.recording(model) as recording:
        model(rows())

    assert recording.profile.macs == UP


def test_a_recording_is_used_once():
    recording = flopsight.recording()

    with pytest.raises(StateError, match="Nothing was recorded yet"):
        recording.profile
    with recording:
        pass
    with pytest.raises(StateError, match="has run already"), recording:
        pass
