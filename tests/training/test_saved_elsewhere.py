"""Saved bytes where autograd does not keep a plain tensor: wrapper subclasses, saved-tensor hooks, gathered weights."""

import weakref

import pytest
import torch
from releases import since
from torch import distributed, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import flopsight

ROWS, WIDTH, FLOAT = 8, 4, 4
ACTIVATION = ROWS * WIDTH * FLOAT
"""What the ReLU keeps, and the second product with it: one storage. The first product keeps the input, which is no activation."""


class Net(nn.Module):
    def __init__(self, hooks=None):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, 2, bias=False)
        self.hooks = hooks

    def forward(self, batch):
        if self.hooks is None:
            return self.down(self.up(batch).relu())
        with self.hooks():
            return self.down(self.up(batch).relu())


def saved(model, batch):
    with flopsight.recording(model) as recording:
        model(batch)
    return recording.profile.root.activation_bytes


def test_rows_of_several_lengths_are_saved_like_as_many_rows_of_one():
    jagged = torch.nested.nested_tensor([torch.randn(5, WIDTH), torch.randn(3, WIDTH)], layout=torch.jagged)

    assert saved(Net(), jagged) == saved(Net(), torch.randn(ROWS, WIDTH)) == ACTIVATION


def test_the_sum_of_a_jagged_output_keeps_the_output():
    """Torch's sum keeps a jagged tensor and not a plain one, so the loss counts what the model does not save."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU())
    jagged = torch.nested.nested_tensor([torch.randn(5, WIDTH), torch.randn(3, WIDTH)], layout=torch.jagged)
    output = model(jagged)
    kept = weakref.ref(output.values().untyped_storage())
    loss = output.sum()
    del output
    assert loss.grad_fn is not None and kept() is not None, "autograd alone holds it"

    profile = flopsight.count(model, (jagged,), train=True)

    assert {node.path: node.own_activation_bytes for node in profile.walk() if node.own_activation_bytes} == {
        "1": ACTIVATION,
        "<outside>": ACTIVATION,
    }


def test_what_save_on_cpu_keeps_is_seen():
    assert saved(Net(save_on_cpu), torch.randn(ROWS, WIDTH)) == ACTIVATION, "on the CPU it keeps the tensors themselves"


WEIGHT = 2 * WIDTH * FLOAT
PACKED = 3 * ACTIVATION + WEIGHT
"""The input for the first product, the ReLU's result for itself and for the second product, the second weight."""


@pytest.mark.parametrize(
    ("pack", "size"),
    [(torch.clone, PACKED), (torch.Tensor.half, PACKED // 2), (lambda tensor: [(0, tensor)], ACTIVATION)],
)
def test_inside_hooks_that_change_what_is_saved_what_they_return_is_what_is_kept(pack, size):
    hooks = lambda: saved_tensors_hooks(pack, lambda packed: packed)  # noqa: E731

    assert saved(Net(hooks), torch.randn(ROWS, WIDTH)) == size


def test_hooks_that_keep_a_tensor_elsewhere_and_return_a_number_keep_it_too():
    shelf = []

    def shelve(tensor):
        shelf.append(tensor)
        return len(shelf) - 1

    model = Net(lambda: saved_tensors_hooks(shelve, shelf.__getitem__))

    assert saved(model, torch.randn(ROWS, WIDTH)) == ACTIVATION


def test_hooks_that_throw_a_tensor_away_keep_nothing():
    model = Net(lambda: saved_tensors_hooks(lambda tensor: tuple(tensor.shape), torch.zeros))

    assert saved(model, torch.randn(ROWS, WIDTH)) == 0


def test_hooks_are_as_they_were_afterwards():
    mine = saved_tensors_hooks(torch.clone, lambda packed: packed)
    model = Net(lambda: mine)

    saved(model, torch.randn(ROWS, WIDTH))

    assert mine.pack_hook is torch.clone
    assert saved_tensors_hooks.__enter__.__module__ == "torch.autograd.graph"


@since((2, 7), "FSDP2 on a CPU")
def test_weights_that_are_gathered_for_a_forward_are_no_activations():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = Net()
        for part in (model.up, model.down, model):
            fully_shard(part, mesh=init_device_mesh("cpu", (1,)))

        assert saved(model, torch.randn(ROWS, WIDTH)) == ACTIVATION
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("keep", [lambda tensor: tensor, torch.clone], ids=["the tensor", "a copy"])
def test_what_hooks_keep_elsewhere_and_return_a_handle_for_is_seen(keep, on):
    kept = []

    def pack(tensor):
        kept.append(keep(tensor))
        return len(kept) - 1

    model = Net(lambda: saved_tensors_hooks(pack, lambda handle: kept[handle]))
    profile = flopsight.count(model, (torch.randn(ROWS, WIDTH),), train=True, on=on)

    assert profile.activation_bytes == (PACKED if keep is torch.clone else ACTIVATION)


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_twin_is_on_the_same_device_for_hooks_as_the_model(on):
    profile = flopsight.count(Net(save_on_cpu), (torch.randn(ROWS, WIDTH),), train=True, on=on)

    assert profile.activation_bytes == ACTIVATION
