"""An op that runs again on the same values is noted as a repeat; whatever writes, or draws random numbers, makes new values."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import flopsight

SIDE = 8


def repeated(model, *args, **how):
    """Repeated calls by path and op."""
    counted = flopsight.count(model, args, on="meta", **how)
    return {(node.path, row.op): row.repeated for node in counted.walk() for row in node.ops if row.repeated}


class Two(nn.Module):
    """A layer, and what a test does with it."""

    def __init__(self, work):
        super().__init__()
        self.layer, self.work = nn.Linear(SIDE, SIDE), work

    def forward(self, x):
        return self.work(self.layer, x)


def rows():
    return torch.ones(2, SIDE)


def test_a_layer_called_twice_on_one_input_does_its_work_again():
    assert repeated(Two(lambda layer, x: layer(x) + layer(x)), rows()) == {("layer", "aten.addmm"): 1}


def test_what_follows_from_repeated_work_is_repeated_too():
    found = repeated(Two(lambda layer, x: layer(layer(x)) + layer(layer(x))), rows())

    assert found == {("layer", "aten.addmm"): 2}


def test_a_table_made_in_every_layer_is_made_once_too_often_for_all_but_the_first():
    def masks(layer, x):
        for _ in range(3):
            x = layer(x) + torch.ones(SIDE).cumsum(0)
        return x

    found = repeated(Two(masks), rows())
    assert found[("", "aten.ones")] == found[("", "aten.cumsum")] == 2
    assert ("layer", "aten.addmm") not in found


@pytest.mark.parametrize(
    "work",
    [
        lambda layer, x: layer(x) + layer(x + 1),
        lambda layer, x: layer(layer(x)),
        lambda layer, x: layer(x[:1]) + layer(x[1:]),
        lambda layer, x: functional.dropout(x, 0.5) + functional.dropout(x, 0.5),
        lambda layer, x: torch.rand(SIDE) + torch.rand(SIDE),
    ],
    ids=["another input", "its own output", "other rows of one storage", "dropout", "random numbers"],
)
def test_other_values_are_other_work(work):
    assert repeated(Two(work), rows()) == {}


@pytest.mark.parametrize(
    "write", [lambda x: x[:, :1].add_(1), lambda x: torch._foreach_add_([x], 1)], ids=["into a view", "into a list"]
)
def test_a_write_in_between_makes_another_input(write):
    def writes(layer, x):
        x = x.clone()
        first = layer(x)
        write(x)
        return first + layer(x)

    assert repeated(Two(writes), rows()) == {}


def test_attention_gives_the_same_again_without_dropout_and_other_values_with_it():
    def attends(p):
        def work(layer, x):
            heads = x.view(1, 1, 2, SIDE)
            attended = [functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=p) for _ in range(2)]
            return sum(layer(each.view(2, SIDE)) for each in attended)

        return repeated(Two(work), rows())

    assert attends(0.0)["layer", "aten.addmm"] == 1
    assert ("layer", "aten.addmm") not in attends(0.5)


def test_a_second_step_after_an_update_is_no_repeat():
    model = Two(lambda layer, x: layer(x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            for _ in range(2):
                self.model(x).sum().backward()
                optimizer.step()
            return self.model(x)

    x = rows()
    found = flopsight.profile(Steps(), (x,), latency=False)
    assert not any(row.repeated for node in found.walk() for row in node.ops if row.phase == "forward")


def test_repeats_are_looked_for_on_real_tensors_where_memory_is_followed():
    twice = Two(lambda layer, x: layer(x) + layer(x))

    assert flopsight.profile(twice, (rows(),), latency=False)["layer"].ops[0].repeated == 1
    assert flopsight.count(twice, (rows(),))["layer"].ops[0].repeated == 0


def test_a_saved_profile_keeps_them(tmp_path):
    profile = flopsight.count(Two(lambda layer, x: layer(x) + layer(x)), (rows(),), on="meta")
    profile.save(tmp_path / "p.json")

    assert flopsight.load(tmp_path / "p.json")["layer"].ops[0].repeated == 1


class Holder(nn.Module):
    """Parameters that are read themselves, as a view, in a list and by a submodule's hand; one is not read at all."""

    def __init__(self):
        super().__init__()
        for name in ("direct", "viewed", "listed", "spare"):
            self.register_parameter(name, nn.Parameter(torch.ones(SIDE, SIDE)))
        self.layer = nn.Linear(SIDE, SIDE)
        self.recurrent = nn.LSTM(SIDE, SIDE)
        self.attention = nn.MultiheadAttention(SIDE, 2)

    def forward(self, x):
        x = x @ self.direct + x @ self.viewed.t()[:SIDE] + torch.cat([x, self.listed])[: len(x)]
        return self.attention(*[self.recurrent(self.layer(x))[0]] * 3)[0]


@pytest.mark.parametrize("how", [{"on": "meta"}, {"train": True}, {"on": "meta", "train": True}], ids=str)
def test_a_parameter_that_no_op_reads_is_unread(how):
    counted = flopsight.count(Holder(), (rows(),), **how)

    assert [(node.path, p.name) for node in counted.walk() for p in node.parameters if p.unread] == [("", "spare")]


def test_without_following_memory_no_parameter_is_called_unread():
    counted = flopsight.count(Holder(), (rows(),))

    assert not any(p.unread for node in counted.walk() for p in node.parameters)
