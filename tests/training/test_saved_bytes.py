"""Activation bytes are what the graph of a loss keeps alive, byte for byte, on real tensors and on meta."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from training.live import Births, kept_bytes
from training.transformer import CHECKPOINTS, Transformer, tokens

import flopsight
from flopsight.zoo.catalogue import build


def saved(model, args=(), kwargs=None, on="real"):
    return flopsight.count(model, args, kwargs, train=True, on=on).activation_bytes


@pytest.mark.parametrize(("name", "batch"), [("resnet18", 2), ("bert-base", 1), ("gpt2", 1)])
def test_saved_bytes_of_known_models_are_what_stays_alive(name, batch):
    model, args, kwargs = build(name, batch)
    model.train()

    kept = kept_bytes(model, args, kwargs)

    assert kept > 10e6
    assert saved(model, args, kwargs) == kept
    assert saved(model, args, kwargs, on="meta") == kept


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("how", ["plain", *CHECKPOINTS])
def test_saved_bytes_of_a_checkpointed_transformer_are_what_stays_alive(how, head):
    model, x = Transformer(how, head=head), tokens()

    kept = kept_bytes(model, (x,))

    assert saved(model, (x,)) == kept
    assert saved(model, (x,), on="meta") == kept


def test_checkpointing_saves_less_and_selective_checkpointing_in_between():
    sizes = {how: saved(Transformer(how), (tokens(),)) for how in ("plain", "selective", "non-reentrant")}

    assert sizes["non-reentrant"] < sizes["selective"] < sizes["plain"]


def test_the_cache_of_a_selective_checkpoint_belongs_to_the_modules_that_made_it():
    rows, wide = 8, 16

    class Selective(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.act, self.down = nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide)

        def block(self, x):
            return self.down(self.act(self.up(x)))

        def forward(self, x):
            contexts = lambda: create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])
            return checkpoint(self.block, x, use_reentrant=False, context_fn=contexts)

    model, x = Selective(), torch.randn(rows, wide)

    profile = flopsight.count(model, (x,), train=True)

    # The product that the block ends with is cached too, though it is the model's output.
    assert profile["up"].activation_bytes == 4 * rows * 4 * wide
    assert profile["act"].activation_bytes == 0
    assert profile["down"].activation_bytes == 4 * rows * wide
    assert profile.activation_bytes == kept_bytes(model, (x,))


def test_a_storage_that_two_modules_save_belongs_to_the_first():
    rows, wide = 8, 16
    model = nn.Sequential(nn.Linear(wide, wide), nn.Tanh(), nn.Linear(wide, wide))

    profile = flopsight.count(model, (torch.randn(rows, wide),), train=True)

    assert [profile[str(i)].activation_bytes for i in range(3)] == [0, 4 * rows * wide, 0]


def test_views_of_one_storage_are_one_saved_storage():
    class Chunks(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = nn.Linear(8, 24)

        def forward(self, x):
            a, b, c = self.wide(x).chunk(3, -1)
            return a * b * c

    profile = flopsight.count(Chunks(), (torch.randn(4, 8),), train=True)

    # The three chunks share one storage; the product of two of them is another.
    assert profile.activation_bytes == 4 * (4 * 24 + 4 * 8)


def test_parameters_buffers_and_inputs_are_no_activations_though_they_are_saved():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))
            self.register_buffer("offset", torch.ones(8))

        def forward(self, x):
            return x * self.scale * self.offset

    assert saved(Scaled(), (torch.randn(4, 8),)) == 0


def test_an_input_that_something_trainable_made_is_an_activation():
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    with flopsight.recording() as r:
        second(first(torch.randn(4, 8))).sum().backward()

    assert r.profile.activation_bytes == 4 * 4 * 8


def test_what_is_gone_before_backward_begins_was_not_saved_for_it():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.main, self.aside = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            self.aside(x).exp().sum().item()  # a figure for a log, made with gradients on
            return self.main(x).exp()

    model, x = Aside(), torch.randn(4, 8)

    profile = flopsight.count(model, (x,), train=True)

    assert profile.activation_bytes == kept_bytes(model, (x,)) == 4 * 4 * 8
    assert profile["aside"].activation_bytes == 0


def test_two_forwards_before_one_backward_save_twice_and_with_one_each_once():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    batches = [torch.randn(4, 8) for _ in range(2)]

    with flopsight.recording(model) as together:
        sum(model(x).sum() for x in batches).backward()
    with flopsight.recording(model) as one_by_one:
        for x in batches:
            model(x).sum().backward()

    assert together.profile.activation_bytes == 2 * 4 * 4 * 8
    assert one_by_one.profile.activation_bytes == 4 * 4 * 8


def test_inputs_that_are_gone_do_not_hide_activations_that_took_their_place():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    with flopsight.recording(model) as r:
        for _ in range(50):
            model(torch.randn(4, 8))
        held = [model(torch.randn(4, 8)) for _ in range(50)]

    assert len(held) == 50
    assert r.profile.activation_bytes == 50 * 4 * 4 * 8


def test_what_a_loss_saves_is_counted_outside_the_modules():
    model, labels = nn.Linear(8, 10), torch.zeros(4, dtype=torch.int64)

    profile = flopsight.count(
        model, (torch.randn(4, 8),), train=True, loss=lambda scores: F.cross_entropy(scores, labels)
    )

    # The log-probabilities; the labels and the count of rows come with the loss too.
    log_probabilities, row_count = 4 * 4 * 10, 4
    assert profile["<outside>"].activation_bytes == log_probabilities + row_count + labels.nbytes


def test_a_forward_without_gradients_saves_nothing():
    with torch.no_grad():
        profile = flopsight.count(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), (torch.randn(4, 8),))

    assert profile.activation_bytes == 0


def test_a_graph_that_nobody_runs_backward_is_freed_with_its_output():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Softmax(-1))
    made = Births([*model.parameters()])

    with made, flopsight.recording(model):
        model(torch.randn(4, 8))

    assert made.bytes == 0


def test_a_forward_whose_backward_never_comes_tells_what_it_kept_until_its_output_was_dropped():
    profile = flopsight.count(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), (torch.randn(4, 8),))

    assert profile.activation_bytes == 4 * 4 * 8
