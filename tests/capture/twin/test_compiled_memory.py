"""What a compiled step keeps and holds, held against sums written out here and against a compiled step that runs."""

import sys

import pytest
import torch
from releases import with_compiled_peaks
from torch import nn
from torch.nn import functional

from flopsight.capture.hooks.internals import NotTracedError
from flopsight.capture.twin.compiled_memory import compiled_bytes

BATCH, SEQ, WIDTH, INNER, WORDS = 4, 8, 64, 256, 1000
TOKENS = BATCH * SEQ
FLOAT = 4
BLOCK = FLOAT * TOKENS * (2 * INNER + WIDTH)
"""What GELU reads, the second product's input, and the block's output, which the next one's product reads."""
LOGITS = FLOAT * TOKENS * WORDS
REST = LOGITS + FLOAT * (TOKENS * WIDTH + 2 * TOKENS + 1)
"""Logits, the embedding's result, of each softmax its maximum and its logarithm, and how many tokens count."""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)) * 2)


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


def tokens(device="meta"):
    return torch.zeros(BATCH, SEQ, dtype=torch.int64, device=device)


def counted(depth):
    return compiled_bytes(Net(depth).to("meta").train(), (tokens(),), {})


@with_compiled_peaks
@pytest.mark.parametrize("depth", [1, 3])
def test_what_is_kept_and_alive_at_most_is_a_sum_over_blocks(depth):
    found = counted(depth)

    assert found.kept == REST + depth * BLOCK
    # and the logits' gradient, which the kernel that computes it writes for two products, the loss, and its gradient
    assert found.peak == found.kept + LOGITS + 2 * FLOAT


@with_compiled_peaks
def test_a_compiled_step_that_runs_keeps_as_much():
    net, kept = Net(2), {}
    own = {parameter.untyped_storage().data_ptr() for parameter in net.parameters()}
    given = tokens("cpu")

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in {*own, given.untyped_storage().data_ptr()}:
            kept[storage.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    compiled = torch.compile(net, backend="aot_eager_decomp_partition")
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = compiled(given)

    assert sum(kept.values()) == counted(2).kept
    del loss
    torch._dynamo.reset()


@with_compiled_peaks
def test_a_model_and_the_compiler_stay_as_they_were():
    net = Net(1).to("meta").train()
    before = {name: id(parameter) for name, parameter in net.named_parameters()}
    state = torch.get_rng_state()

    compiled_bytes(net, (tokens(),), {})

    assert {name: id(parameter) for name, parameter in net.named_parameters()} == before
    assert torch.equal(torch.get_rng_state(), state)
    entries = sys.modules["torch._dynamo"].eval_frame._debug_get_cache_entry_list
    assert not entries(Net.forward.__code__), "users' code is not compiled"


def test_a_model_of_several_graphs_is_refused():
    class Breaking(Net):
        def forward(self, tokens):
            if float(self.head.weight.sum()) > 0:
                return super().forward(tokens)
            return super().forward(tokens) * 2

    with pytest.raises(NotTracedError):
        compiled_bytes(Breaking(1).to("meta").train(), (tokens(),), {})
