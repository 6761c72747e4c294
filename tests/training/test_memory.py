"""Memory of a training step by module: parameters, gradients, optimizer state, saved activations, and the peak."""

import re

import pytest
import torch
from torch import nn
from training.live import Peak, tensors
from training.transformer import CHECKPOINTS, Transformer, tokens

import flopsight
from flopsight.zoo.catalogue import build

ON = pytest.mark.parametrize("on", ["real", "meta"])
ROWS, INTO, HIDDEN, OUT = 64, 8, 32, 4
FLOAT = 4
UP, DOWN = INTO * HIDDEN * FLOAT, HIDDEN * OUT * FLOAT
"""Bytes of the two weights."""
INPUT, INNER, OUTPUT = ROWS * INTO * FLOAT, ROWS * HIDDEN * FLOAT, ROWS * OUT * FLOAT
"""Bytes of the rows before, between and after the layers."""


def perceptron():
    return nn.Sequential(nn.Linear(INTO, HIDDEN, bias=False), nn.ReLU(), nn.Linear(HIDDEN, OUT, bias=False))


def train(model, *args, on="real", **options):
    return flopsight.count(model, args, train=True, on=on, **options)


OPTIMIZERS = {
    "none": (lambda _: None, 0, 0),
    "plain descent": (lambda p: torch.optim.SGD(p, lr=0.1), 0, 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1, 0),
    "AdamW": (torch.optim.AdamW, 2, 1),
    "AMSGrad": (lambda p: torch.optim.Adam(p, amsgrad=True), 3, 1),
}
"""How each is made; what it keeps for a parameter, in copies of it; and in counts of steps, a float each."""


@ON
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_module_has_its_parameters_gradients_and_optimizer_state(name, on):
    make, copies, counts = OPTIMIZERS[name]
    model = perceptron()

    profile = train(model, torch.randn(ROWS, INTO), optimizer=make(model.parameters()), on=on)

    for path, size in (("0", UP), ("1", 0), ("2", DOWN)):
        node = profile[path]
        assert node.param_bytes == node.grad_bytes == size
        assert node.optimizer_bytes == copies * size + (counts * FLOAT if size else 0)
    assert profile.root.optimizer_bytes == copies * (UP + DOWN) + 2 * counts * FLOAT


@ON
def test_a_frozen_layer_has_parameters_but_neither_gradient_nor_state(on):
    model = perceptron()
    model[0].requires_grad_(False)

    profile = train(model, torch.randn(ROWS, INTO), optimizer=torch.optim.AdamW(model.parameters()), on=on)

    assert (profile["0"].param_bytes, profile["0"].grad_bytes, profile["0"].optimizer_bytes) == (UP, 0, 0)
    assert (profile["2"].grad_bytes, profile["2"].optimizer_bytes) == (DOWN, 2 * DOWN + FLOAT)


@ON
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_peak_of_a_perceptron_is_where_the_gradient_passes_the_activation(name, on):
    make, copies, counts = OPTIMIZERS[name]
    model = perceptron()

    profile = train(model, torch.randn(ROWS, INTO), optimizer=make(model.parameters()), on=on)

    # At ReLU's backward: its output was saved, the gradient comes in, and another one of its size goes out. The last
    # layer's gradient is there already, the first one's is not yet; the output and the loss are still in the caller's
    # hands, and a gradient of one number for the loss. Adam's state is there from the second step on.
    loss = 2 * FLOAT
    assert dict(profile.at_peak) == {
        key: size
        for key, size in {
            "parameters": UP + DOWN,
            "inputs": INPUT,
            "activations": INNER,
            "gradients": DOWN,
            "optimizer": copies * (UP + DOWN) + 2 * counts * FLOAT,
            "temporaries": 2 * INNER + OUTPUT + loss,
        }.items()
        if size
    }
    assert profile.peak_bytes == sum(profile.at_peak.values())


@ON
def test_state_that_an_optimizer_has_already_is_no_part_of_the_model(on):
    model = perceptron()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(ROWS, INTO)
    fresh = train(model, x, optimizer=optimizer, on=on)
    model(x).sum().backward()
    optimizer.step()

    used = train(model, x, optimizer=optimizer, on=on)

    assert used.at_peak == fresh.at_peak
    assert used.peak_bytes == fresh.peak_bytes


def step(model, args, optimizer):
    """A step as everybody writes it."""
    optimizer.zero_grad()
    output = model(*args)
    output.sum().backward()
    optimizer.step()


@pytest.mark.parametrize("how", ["plain", *CHECKPOINTS])
def test_the_peak_of_a_transformer_is_that_of_its_second_step(how):
    torch.manual_seed(0)
    model, x = Transformer(how), tokens(grad=how == "reentrant")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    profiles = [train(model, x, optimizer=optimizer, on=on) for on in ("real", "meta")]
    step(model, (x,), optimizer)
    optimizer.zero_grad()
    x.grad = None

    watched = Peak([*model.parameters(), x, *tensors(list(optimizer.state.values()))])
    with watched:
        step(model, (x,), optimizer)

    assert [profile.peak_bytes for profile in profiles] == [watched.most] * 2


def test_the_peak_of_resnet18_is_that_of_its_second_step():
    model, (images,), _ = build("resnet18", 2)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    profiles = [train(model, images, optimizer=optimizer, on=on) for on in ("real", "meta")]
    step(model, (images,), optimizer)
    optimizer.zero_grad()

    watched = Peak([*model.parameters(), *model.buffers(), images, *tensors(list(optimizer.state.values()))])
    with watched:
        step(model, (images,), optimizer)

    assert [profile.peak_bytes for profile in profiles] == [watched.most] * 2
    assert profiles[0].at_peak["buffers"] == sum(buffer.nbytes for buffer in model.buffers())


@ON
def test_what_a_checkpoint_computes_again_is_named_at_the_peak(on):
    profile = train(Transformer("non-reentrant"), tokens(), on=on)

    assert profile.at_peak["recomputed"] > 0
    assert "recomputed" not in train(Transformer(), tokens(), on=on).at_peak


@ON
def test_allocated_bytes_are_the_growth_of_memory_during_a_forward(on):
    """The older profilers' AProfiler figure: outputs that nobody saves are in it, and what was freed on the way is not."""
    profile = train(perceptron(), torch.randn(ROWS, INTO), on=on)

    assert profile["0"].allocated_bytes == INNER
    assert profile["1"].allocated_bytes == INNER
    assert profile["2"].allocated_bytes == OUTPUT
    assert profile.root.allocated_bytes == INNER + OUTPUT  # what came into ReLU is gone


@ON
def test_saved_activations_stand_beside_the_module_that_saved_them(on):
    profile = train(perceptron(), torch.randn(ROWS, INTO), on=on)

    assert [profile[str(i)].activation_bytes for i in range(3)] == [0, INNER, 0]
    assert profile.activation_bytes == INNER


def test_before_anything_is_allocated_a_model_on_meta_tells_its_memory():
    with torch.device("meta"):
        model, x = perceptron(), torch.randn(ROWS, INTO)
        optimizer = torch.optim.AdamW(model.parameters())

    profile = train(model, x, optimizer=optimizer)

    real = perceptron()
    alive = train(real, torch.randn(ROWS, INTO), optimizer=torch.optim.AdamW(real.parameters()))
    assert profile.at_peak == alive.at_peak
    assert profile.root.optimizer_bytes == 2 * (UP + DOWN) + 2 * FLOAT
    assert profile.activation_bytes == INNER


@ON
def test_every_module_has_its_part_of_what_was_alive_at_the_peak(on):
    model = perceptron()

    profile = train(model, torch.randn(ROWS, INTO), optimizer=torch.optim.AdamW(model.parameters()), on=on)

    # At ReLU's backward: ReLU holds its output and makes a gradient; the last layer made the output of the model, its
    # weight's gradient and the gradient that comes in. Parameters, inputs and state were there before.
    assert profile["0"].peak_bytes == 0
    assert profile["1"].peak_bytes == 2 * INNER
    assert profile["2"].peak_bytes == OUTPUT + DOWN + INNER
    made = sum(profile.at_peak[kind] for kind in ("activations", "gradients", "temporaries"))
    assert profile.root.peak_bytes == made


def test_the_view_of_memory_shows_every_figure_of_every_module():
    model = perceptron()
    profile = train(model, torch.randn(ROWS, INTO), optimizer=torch.optim.AdamW(model.parameters()))

    header, _, root, *modules = profile.render("memory", width=200).split("\n\n")[1].splitlines()

    assert header.split() == ["module", "params", "gradients", "optimizer", "saved", "allocated", "at", "peak"]
    assert root.split("  ")[0] == "Sequential"
    last = re.split(r" {2,}", modules[2].strip())
    assert last == ["2: Linear", "512 B", "512 B", "1.03 kB", "0 B", "1.02 kB", "9.73 kB"]
    text = profile.render("memory", width=200)
    assert re.search(
        r"Peak memory 32.8 kB, of which\n +temporaries +17.4 kB  53.1%\n +activations +8.19 kB  25.0%", text
    )


def test_the_view_of_memory_without_training_has_neither_gradients_nor_state():
    with torch.no_grad():
        profile = flopsight.count(perceptron(), (torch.randn(ROWS, INTO),), on="meta")

    header = profile.render("memory", width=200).split("\n\n")[1].splitlines()[0]

    assert header.split() == ["module", "params", "allocated", "at", "peak"]
