"""Loops with a teacher or two models, and models with several losses: which calls are in a step, against sums written here."""

import torch
from loop.monitor.training import HIDDEN, OUT, WIDE, model_flops, rows, sgd, watched
from torch import nn
from torch.nn import functional as F

import flopsight

FORWARD = 2 * 4 * WIDE * OUT
"""Of one call of `linear()` on four rows; its backward makes the weight's gradient, which is as much."""


def linear():
    return nn.Linear(WIDE, OUT, bias=False)


def distil(student, teacher, optimizer):
    with torch.no_grad():
        wanted = teacher(rows(4))
    F.mse_loss(student(rows(4)), wanted + 1).backward()
    optimizer.step()


def validate(student, teacher):
    student.eval()
    with torch.no_grad():
        for _ in range(2):
            F.mse_loss(student(rows(9)), teacher(rows(9)))
            F.mse_loss(teacher(rows(9)), student(rows(9)))
    student.train()


def test_a_teacher_in_eval_mode_is_in_every_step_and_its_validations_are_in_none():
    student, teacher, seen = linear(), linear().eval(), []
    optimizer = sgd(student)
    with flopsight.monitor([student, teacher], optimizer, every=1, to=[seen.append]) as live:
        for number in range(4):
            if number % 2 == 0:
                validate(student, teacher)
            distil(student, teacher, optimizer)

    assert model_flops(seen) == [FORWARD + 2 * FORWARD] * 4
    assert live.summary().whole.validations == 2 * 8


def test_a_frozen_teacher_is_in_every_step_without_an_optimizer_given():
    student, teacher, seen = linear(), linear().eval().requires_grad_(False), []
    optimizer = sgd(student)
    with flopsight.monitor([student, teacher], every=1, to=[seen.append]):
        for _ in range(3):
            distil(student, teacher, optimizer)

    assert model_flops(seen) == [FORWARD + 2 * FORWARD] * 3


def adversarial(by_hand):
    """Records of a loop in which the judge steps twice for each step of the maker, whose calls are then without gradients."""
    maker, judge, seen = linear(), nn.Linear(OUT, 1, bias=False), []
    first, second = sgd(maker), sgd(judge)
    with flopsight.monitor([maker, judge], every=1, to=[seen.append]) as live:
        for _ in range(4):
            for _ in range(2 if by_hand else 1):
                with torch.no_grad():
                    made = maker(rows(4))
                judge(made).mean().backward()
                second.step()
            judge(maker(rows(4))).mean().backward()
            first.step()
            if by_hand:
                live.step()
    return seen


def test_a_maker_called_without_gradients_in_train_mode_is_in_every_step():
    judged = 2 * 4 * OUT
    once, last = FORWARD + 2 * judged, 2 * FORWARD + 3 * judged  # the last backward goes through the judge to the maker

    assert model_flops(adversarial(by_hand=False)) == [once + last] * 4
    assert model_flops(adversarial(by_hand=True)) == [2 * once + last] * 4


class Heads(nn.Module):
    """Two heads on one body; `give` makes the output of what they return."""

    def __init__(self, give):
        super().__init__()
        self.body = nn.Linear(WIDE, HIDDEN, bias=False)
        self.one, self.other = nn.Linear(HIDDEN, 3, bias=False), nn.Linear(HIDDEN, 5, bias=False)
        self.give = give

    def forward(self, x):
        hidden = self.body(x)
        return self.give(self.one(hidden), self.other(hidden))


def step_of(give, loss):
    """Model FLOPs of three steps, and what the run notes."""

    def loop(model, optimizer, live):
        for _ in range(3):
            loss(model(rows(4))).backward()
            optimizer.step()

    seen, live = watched(loop, model=Heads(give), every=1)
    return model_flops(seen), live.summary().notes


BODY, ONE, OTHER = (2 * 4 * size for size in (WIDE * HIDDEN, HIDDEN * 3, HIDDEN * 5))


def test_a_loss_beside_the_logits_is_known_from_the_call():
    both = 2 * BODY + 3 * ONE + OTHER  # the other head has no backward
    given = step_of(lambda one, other: (other.detach(), one.mean()), lambda output: output[1])

    assert given == ([both] * 3, ())


def test_losses_by_name_are_counted_with_all_their_backwards():
    given = step_of(lambda one, other: {"a": one.mean(), "b": other.mean()}, lambda output: sum(output.values()))

    assert given == ([2 * BODY + 3 * (ONE + OTHER)] * 3, ())


def test_an_output_that_is_used_beside_the_model_s_loss_is_counted():
    found, _ = step_of(lambda one, other: {"loss": one.mean(), "more": other}, lambda o: o["loss"] + o["more"].mean())

    assert found == [2 * BODY + 3 * (ONE + OTHER)] * 3


class Dropped(nn.Module):
    """Runs as many of its layers as it is asked to, by an attribute."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDE, WIDE, bias=False) for _ in range(4))
        self.count = 4

    def forward(self, x):
        for layer in self.layers[: self.count]:
            x = layer(x)
        return x


def test_work_that_no_step_has_told_so_far_is_absent_and_not_that_of_another_step():
    counts = (4, 2, 2, 2, 2, 1, 4, 4)

    def loop(model, optimizer, live):
        for count in counts:
            model.count = count
            model(rows(4)).sum().backward()
            optimizer.step()
            live.step()

    seen, live = watched(loop, model=Dropped(), every=1)

    layer = 2 * 4 * WIDE * WIDE
    found = [record.get("flopsight/model_flops") for record in seen]
    for count, flops in zip(counts, found, strict=True):
        assert flops in (None, (3 * count - 1) * layer)  # the first layer's input needs no gradient
    assert found.count(None) <= 2
    assert not live.summary().whole.estimated
