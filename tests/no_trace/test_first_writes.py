"""What a forward writes outside of buffers, by an op or through `.data`, is as it was: parameters, plain tensors, inputs."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.model import first_writes

MEASURES = {
    "count": flopsight.count,
    "profile": lambda *args, **kwargs: flopsight.profile(*args, warmup=1, repeats=2, **kwargs),
}


class Writing(nn.Module):
    """A product whose forward writes somewhere first."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.weight = nn.Parameter(torch.full((4, 4), 2.0))
        self.table = nn.Embedding(3, 4, max_norm=0.5)
        self.plain, self._private, self.listed = torch.full((4,), 2.0), torch.full((4,), 2.0), [torch.full((4,), 2.0)]
        nn.init.constant_(self.table.weight, 2.0)

    def forward(self, x):
        with torch.no_grad():
            self.write(self, x)
        return x @ self.weight + self.plain + self.listed[0]

    def held(self):
        return self.weight, self.table.weight, self.plain, self._private, *self.listed


def replace_data(model, _):
    model.weight.data = model.weight.data * 0.5


def raise_after_writing(model, _):
    model.weight.mul_(0.5)
    raise ValueError("not today")


WRITES = {
    "a parameter": lambda model, _: model.weight.mul_(0.5),
    "a part of a parameter": lambda model, _: model.weight[1].zero_(),
    "a parameter's data": lambda model, _: model.weight.data.mul_(0.5),
    "other data for a parameter": replace_data,
    "a table whose rows have a largest norm": lambda model, _: model.table(torch.tensor([0, 2])),
    "a plain tensor": lambda model, _: model.plain.data.add_(1),
    "a private tensor": lambda model, _: model._private.add_(1),
    "a tensor in a list": lambda model, _: model.listed[0].add_(1),
    "several at once": lambda model, _: torch._foreach_mul_([model.weight, model.plain], 0.5),
    "the data of an input": lambda _, x: x.data.add_(1),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("measure", MEASURES)
def test_what_a_forward_writes_is_put_back(measure, write, train):
    model, x = Writing(WRITES[write]), torch.full((2, 4), 2.0)
    places = [tensor.data_ptr() for tensor in model.held()]
    versions = [tensor._version for tensor in model.held()]

    profile = MEASURES[measure](model, (x,), train=train)

    assert all(torch.equal(tensor, torch.full_like(tensor, 2.0)) for tensor in (*model.held(), x))
    assert [tensor.data_ptr() for tensor in model.held()] == places
    assert [tensor._version for tensor in model.held()] == versions
    assert profile.macs == 2 * 4 * 4


def test_a_step_puts_back_what_forward_and_optimizer_write():
    model = Writing(WRITES["a parameter"])

    flopsight.count(
        model, (torch.ones(2, 4),), train=True, optimizer=torch.optim.SGD([model.weight, model.table.weight], lr=0.1)
    )

    assert all(torch.equal(tensor, torch.full_like(tensor, 2.0)) for tensor in model.held())


@pytest.mark.parametrize("measure", MEASURES)
def test_a_forward_that_raises_after_a_write_leaves_none(measure):
    model = Writing(raise_after_writing)

    with pytest.raises(ValueError, match="not today"):
        MEASURES[measure](model, (torch.ones(2, 4),))

    assert torch.equal(model.weight, torch.full((4, 4), 2.0))
    assert not first_writes._guards


def test_what_is_not_written_is_not_copied(monkeypatch):
    copied = []
    monkeypatch.setattr(first_writes, "Values", lambda tensors: copied.append(tensors) or pytest.fail("copied"))

    flopsight.count(Writing(lambda *_: None), (torch.ones(2, 4),))

    assert not copied
