"""Values on meta: a model that looks at its numbers does on its twin what it does on real tensors, or says it assumed."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

import flopsight
from flopsight.errors import InputError
from flopsight.results.caveats import NoTwin

WIDTH = 4
ONCE = 2 * WIDTH * WIDTH
"""MACs of one call of the layer."""


class Repeats(nn.Module):
    """Calls its layer as often as a function of its inputs says."""

    def __init__(self, times):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("steps", torch.tensor([1, 2, 3]))
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.times = times

    def forward(self, x, numbers):
        for _ in range(int(self.times(self, x, numbers))):
            x = self.layer(x)
        return x


def count(times, on, numbers=None):
    numbers = torch.tensor([3, 1, 4, 1, 5]) if numbers is None else numbers
    return flopsight.count(Repeats(times), (torch.ones(2, WIDTH), numbers), on=on)


def written_through_a_view(model, x, numbers):
    base = torch.zeros(4, dtype=torch.long)
    base[1:3] += 2
    return base.sum()


def read_through_an_earlier_view(model, x, numbers):
    base = torch.zeros(2, 3)
    column = base.t()[1]
    base.fill_(2)
    return column.sum()


def read_before_a_write_and_asked_for_after_it(model, x, numbers):
    base = torch.ones(3)
    before = base + 0
    base.add_(5)
    return before.sum() + 0 * int(base.sum())


def filled_piece_by_piece(model, x, numbers):
    made = torch.empty(3, dtype=torch.long, device=x.device)
    made[0] = 1
    made[1:] = numbers[:2]
    return made.sum()


def copied_over_something_unknown(model, x, numbers):
    made = model.layer(x).detach()
    made.copy_(torch.ones(2, WIDTH))
    return made.sum()


def masked(model, x, numbers):
    made = numbers.clone()
    made[made > 3] = 0
    made.masked_fill_(made == 1, 2)
    return made.sum()


def two_dimensional_mask(model, x, numbers):
    return torch.arange(12).view(3, 4)[torch.eye(3, 4).bool()].numel()


def mask_on_unknown_values(model, x, numbers):
    return model.layer(x).expand(5, 2, WIDTH)[numbers > 1].shape[0]


def picked_from_unknown_values(model, x, numbers):
    return model.layer(x)[:, 0].expand(5, 2).masked_select((numbers > 1)[:, None]).numel()


def reinterpreted(model, x, numbers):
    return torch.ones(2, dtype=torch.int32).view(torch.int16).sum()


def read_from_memory_after_a_write(model, x, numbers):
    made = torch.empty(3, dtype=torch.long, device="cpu")
    made[:] = 1
    made[1:] += 1
    return sum(made.tolist()) + made.numpy().sum()


def long_chain(model, x, numbers):
    made = torch.zeros(3, dtype=torch.long)
    for _ in range(2000):
        made += 1
    return made.sum() // 1000


def constant_on_the_inputs_device(model, x, numbers):
    made = torch.tensor([1, 2], device=x.device) + torch.as_tensor([0, 1], device=x.device)
    return (made + numbers.new_tensor([1, 1])).sum()


def written_at_places_in_a_list(model, x, numbers):
    made = torch.zeros(2, 3, dtype=torch.long, device=x.device)
    made[:, [0, 2]] = 1
    made[[0], [1]] = numbers[:1]
    return made.sum()


def constant_of_numbers_taken_from_a_tensor(model, x, numbers):
    return torch.tensor([numbers[0], numbers.max()], device=x.device).sum()


TAKEN_FROM_KNOWN_VALUES = [
    lambda model, x, numbers: numbers[0],
    lambda model, x, numbers: numbers.float().mean(),
    lambda model, x, numbers: numbers.tolist()[2],
    lambda model, x, numbers: numbers.cpu().numpy()[1],
    lambda model, x, numbers: len(f"{numbers.sum()}"),
    lambda model, x, numbers: 2 if (numbers > 4).any() else 5,
    lambda model, x, numbers: torch.equal(numbers, numbers.clone()) + 1,
    lambda model, x, numbers: numbers.unique().numel(),
    lambda model, x, numbers: numbers.nonzero().shape[0],
    lambda model, x, numbers: numbers[[0, -1]].sum(),
    lambda model, x, numbers: numbers.view(5, 1)[:, [0]].sum(),
    lambda model, x, numbers: numbers[[True, False, False, False, True]].sum(),
    lambda model, x, numbers: 2 if 4 in numbers[None, [2, 3]] else 5,
    lambda model, x, numbers: torch.where(numbers > 1)[0].shape[0],
    lambda model, x, numbers: torch.repeat_interleave(numbers).numel() // 2,
    lambda model, x, numbers: numbers.bincount().numel(),
    lambda model, x, numbers: numbers.view(5, 1).expand(5, 3).sum(),
    lambda model, x, numbers: torch.arange(3, device=x.device).sum(),
    lambda model, x, numbers: model.steps.sum(),
    lambda model, x, numbers: model.scale * 2,
    lambda model, x, numbers: 1 if x.device.type == "cpu" and x.is_cpu and not x.is_meta else 2,
    lambda model, x, numbers: torch.nn.functional.one_hot(numbers).sum(),
    written_through_a_view, read_before_a_write_and_asked_for_after_it, read_through_an_earlier_view, filled_piece_by_piece, copied_over_something_unknown, masked,
    two_dimensional_mask, read_from_memory_after_a_write, mask_on_unknown_values, picked_from_unknown_values, reinterpreted, long_chain,
    constant_on_the_inputs_device, written_at_places_in_a_list, constant_of_numbers_taken_from_a_tensor,
]  # fmt: skip


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("times", TAKEN_FROM_KNOWN_VALUES)
def test_what_follows_from_known_values_is_known_on_meta(times, inference):
    with torch.inference_mode(inference):
        real, meta = (count(times, on) for on in ("real", "meta"))

    assert real.macs >= ONCE
    assert meta.macs == real.macs
    assert not meta.caveats


@torch.inference_mode()
def test_an_op_that_hands_its_input_through_hands_its_value_through_every_time():
    def times(model, x, numbers):
        same = [torch.dropout(numbers.float(), 0.5, train=False) for _ in range(3)]
        return sum(int(one[0]) for one in same)

    profile = count(times, "meta")

    assert profile.macs == 3 * 3 * ONCE
    assert not profile.caveats


def test_an_expanded_input_has_the_values_that_it_shows():
    numbers = torch.tensor([3]).expand(4)

    assert count(lambda model, x, numbers: numbers.sum(), "meta", numbers).macs == 12 * ONCE


def by_unknown_value(model, x, numbers):
    made = torch.full((2, WIDTH), 3.0)
    made[0] += model.layer(x).detach()[0]
    return made[1].sum()


def by_unknown_value_through_a_view(model, x, numbers):
    made = torch.full((2, WIDTH), 3.0)
    made.t().copy_(model.layer(x).detach().t())
    return made.sum()


def by_chance(model, x, numbers):
    return torch.full((100,), 3.0).uniform_().sum()


def by_a_number_that_nobody_knows(model, x, numbers):
    return 1 + (model.layer(x) > 0).sum()


def by_a_branch_that_nobody_knows(model, x, numbers):
    return 2 if (model.layer(x).abs() >= 0).all() else 5


def by_distinct_choices(model, x, numbers):
    return model.layer(x).argmax(-1).unique().numel()


UNKNOWN = [
    by_unknown_value, by_unknown_value_through_a_view, by_chance, by_a_number_that_nobody_knows,
    by_a_branch_that_nobody_knows, by_distinct_choices,
]  # fmt: skip


@pytest.mark.parametrize("times", UNKNOWN)
def test_work_that_follows_from_unknown_values_is_counted_on_real_tensors_where_there_are_some(times):
    torch.manual_seed(0)
    model, args = Repeats(times), (torch.ones(2, WIDTH), torch.tensor([3, 1]))

    real, meta = (flopsight.count(model, args, on=on) for on in ("real", "meta"))

    assert meta.macs == real.macs > 0
    assert any(isinstance(doubt, NoTwin) for doubt in meta.caveats)


class Cut(nn.Module):
    """A layer on as many rows as a mask of its inputs lets through, and one more."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        return self.layer(x[: 1 + int((mask * 1).sum())])


def test_a_shape_that_follows_from_data_is_the_real_one_or_said_to_be_a_lower_bound():
    x, mask = torch.randn(16, WIDTH), torch.ones(15, dtype=torch.bool)
    rows = 1 + 15

    assert flopsight.count(Cut(), (x, mask), on="meta").macs == rows * WIDTH * WIDTH

    without_data = flopsight.count(Cut().to("meta"), (x.to("meta"), mask.to("meta")))
    assert without_data.macs == WIDTH * WIDTH
    assert any("lower bound" in str(doubt) for doubt in without_data.caveats)


def test_batch_norm_makes_its_statistics_unknown():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.layer = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            x = self.norm(self.layer(x))
            return self.layer(x) if int(self.norm.running_var.sum()) == WIDTH else x

    profile = flopsight.count(Normed().train(), (torch.zeros(2, WIDTH),), on="meta")

    assert profile.macs == ONCE, "the ones that the variance began with are gone"
    assert any(isinstance(doubt, NoTwin) for doubt in profile.caveats)


def test_a_tensor_of_the_users_is_read_as_it_is_and_never_written():
    kept = torch.zeros(3, dtype=torch.long)

    def times(model, x, numbers):
        kept.add_(2)
        kept[:1] = 7
        return sum(kept.tolist())

    profile = count(times, "meta")

    assert profile.macs == (7 + 2 + 2) * ONCE
    assert kept.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("size", "times_called"), [(3, 3), (5000, 15)])
def test_a_tensor_of_the_users_that_changes_meanwhile_is_as_it_was_or_unknown(size, times_called):
    """A large one is not copied ahead: it is unknown on meta, and the count on real tensors finds it changed."""
    kept = torch.ones(size)

    def times(model, x, numbers):
        seen = kept + 0
        with _disable_current_modes():
            kept.fill_(5)  # somebody writes while the twin runs
        return seen[:3].sum()

    profile = count(times, "meta")

    assert profile.macs == times_called * ONCE
    assert any(isinstance(doubt, NoTwin) for doubt in profile.caveats) == (times_called == 15)


def test_few_random_numbers_are_drawn_and_the_generator_is_left_alone():
    model = Repeats(lambda model, x, numbers: 3 if torch.rand(()) < 2 else 1)
    state = torch.get_rng_state()

    profile = flopsight.count(model, (torch.ones(2, WIDTH), torch.ones(1)), on="meta")

    assert profile.macs == 3 * ONCE
    assert any("random number" in str(doubt) for doubt in profile.caveats)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("question", [torch.isfinite, lambda t: ~torch.isnan(t), lambda t: ~torch.isinf(t)])
def test_unknown_numbers_are_taken_as_finite(question):
    def times(model, x, numbers):
        return 2 if question(model.layer(x)).all() else 5

    profile = count(times, "meta")

    assert profile.macs == 3 * ONCE
    assert [doubt.what for doubt in profile.caveats] == ["numbers that depend on data are finite"]


def test_an_assumption_that_decides_nothing_is_not_mentioned():
    profile = count(lambda model, x, numbers: model.layer(x).topk(2).indices.shape[1], "meta")

    assert not profile.caveats


def test_a_shape_that_depends_on_unknown_values_sends_the_count_to_real_tensors():
    def times(model, x, numbers):
        made = model.layer(x)
        return 1 + 0 * made[made > 1e9].numel()

    profile = count(times, "meta")

    assert profile.macs == 2 * ONCE
    assert any(isinstance(doubt, NoTwin) and "aten.index" in doubt.why for doubt in profile.caveats)


def test_on_a_model_without_data_it_is_an_error_that_names_the_op_and_the_module():
    model = nn.Sequential(Repeats(lambda model, x, numbers: model.layer(x).nonzero().shape[0])).to("meta")

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = model[0]

        def forward(self, x):
            return self.block(x, x)

    with pytest.raises(InputError, match=r"aten\.nonzero in block \(test_values\.py:\d+\) depends on values"):
        flopsight.count(Both(), (torch.ones(2, WIDTH, device="meta"),))
