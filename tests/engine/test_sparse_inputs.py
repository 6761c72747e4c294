"""A sparse matrix among the inputs, as a graph network has it: every way to profile runs, and counts what it stores."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.model.tensors import stored_bytes

NODES, WIDE, OUT = 6, 8, 4
EDGES = tuple(zip((0, 1, 1, 2, 4, 5, 5), (3, 0, 2, 2, 1, 4, 5), strict=True))
MACS = NODES * WIDE * OUT + len(EDGES) * OUT
"""The layer on every node, and one product for every edge and output."""
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, OUT, bias=False)

    def forward(self, x, edges):
        return torch.sparse.mm(edges, self.layer(x))


def adjacency(layout):
    dense = torch.zeros(NODES, NODES)
    for row, column in EDGES:
        dense[row, column] = 1.0
    return dense.to_sparse(layout=layout)


@pytest.fixture(params=[torch.sparse_coo, torch.sparse_csr], ids=["coo", "csr"])
def inputs(request):
    return torch.randn(NODES, WIDE), adjacency(request.param)


@pytest.mark.parametrize("train", [False, True], ids=["forward", "training"])
def test_a_sparse_input_is_profiled(inputs, train):
    profile = flopsight.profile(Graph(), inputs, train=train, warmup=0, repeats=2)

    assert (profile.macs, profile.batch_size) == (MACS, NODES)


def test_a_one_shot_profile_takes_a_sparse_input(inputs):
    flops, macs, params = flopsight.get_model_profile(
        Graph(), args=list(inputs), print_profile=False, as_string=False, warm_up=0
    )

    assert (flops, macs, params) == (2 * MACS, MACS, WIDE * OUT)


def test_a_sparse_tensor_takes_what_it_stores(inputs):
    assert stored_bytes(inputs[1]) == 4 * len(EDGES)
    assert stored_bytes(inputs[0]) == 4 * NODES * WIDE


@pytest.mark.parametrize("kind", [torch.optim.SparseAdam, torch.optim.SGD, torch.optim.Adagrad])
def test_an_optimizer_steps_on_a_sparse_gradient(kind):
    model = nn.Embedding(10, 4, sparse=True)
    before = model.weight.detach().clone()

    profile = flopsight.count(model, (torch.arange(3),), train=True, optimizer=kind(model.parameters(), lr=0.1))

    assert profile.optimizer.flops >= 3 * 4, "each of the three rows is updated"
    assert torch.equal(model.weight, before)
    assert model.weight.grad is None
