"""A backward may begin at an edge of a graph instead of a tensor."""

import torch
from torch.autograd.graph import get_gradient_edge

from flopsight.capture.model.training_state import leaves_below


def test_leaves_below_an_edge_are_those_below_its_tensor():
    weight, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    made = (weight * 2).sum()
    made_of_both = (weight + other).sum()

    assert [id(leaf) for leaf in leaves_below([get_gradient_edge(made)])] == [id(weight)]
    assert {id(leaf) for leaf in leaves_below([get_gradient_edge(made_of_both), made])} == {id(weight), id(other)}
