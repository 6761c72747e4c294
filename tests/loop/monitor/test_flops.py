"""FLOPs of every step of a loop, against sums written here."""

import pytest
import torch
from loop.monitor.training import HIDDEN, OUT, WIDE, mlp, mlp_flops, model_flops, one_step, rows, sgd, watched
from torch import nn
from torch.utils.checkpoint import checkpoint

import flopsight


def test_a_step_is_forward_and_backward_without_the_optimizer():
    seen, _ = watched(lambda model, optimizer, live: one_step(model, optimizer, rows(4)), every=1)

    assert model_flops(seen) == [mlp_flops(4)]


def test_variable_lengths_have_their_own_flops_in_each_step():
    def loop(model, optimizer, live):
        for count in (4, 9, 4, 1):
            one_step(model, optimizer, rows(count))

    seen, live = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(count) for count in (4, 9, 4, 1)]
    assert live.summary().shapes == 3


def test_micro_batches_of_an_accumulated_step_are_summed():
    def loop(model, optimizer, live):
        one_step(model, optimizer, rows(4), rows(4), rows(2), rows(1))
        one_step(model, optimizer, rows(4))

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(11), mlp_flops(4)]  # linear in the rows


def test_an_interval_has_the_mean_and_every_step_is_in_one():
    def loop(model, optimizer, live):
        for count in (1, 2, 3, 4, 5, 6, 7):
            one_step(model, optimizer, rows(count))

    seen, live = watched(loop, every=3)

    assert model_flops(seen) == [mlp_flops(2), mlp_flops(5), mlp_flops(7)]
    assert [(record["flopsight/step"], record["flopsight/steps"]) for record in seen] == [(2, 3), (5, 3), (6, 1)]
    assert live.summary().steps == 7


def test_layers_frozen_and_thawed_on_the_way_change_the_flops():
    def loop(model, optimizer, live):
        for frozen in (False, True, True, False):
            model[0].requires_grad_(not frozen)
            one_step(model, optimizer, rows(4))

    seen, _ = watched(loop, every=1)

    usual, frozen = mlp_flops(4), mlp_flops(4, first_frozen=True)
    assert model_flops(seen) == [usual, frozen, frozen, usual]


def test_steps_end_where_the_loop_says_so():
    def loop(model, optimizer, live):
        for _ in range(3):
            one_step(model, optimizer, rows(4))
            one_step(model, optimizer, rows(4))
            live.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [2 * mlp_flops(4)] * 3


def test_a_loop_that_says_so_after_each_update_has_as_many_steps_as_updates():
    def loop(model, optimizer, live):
        for _ in range(3):
            one_step(model, optimizer, rows(4))
            live.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 3


def test_recompute_is_in_hfu_and_not_in_model_flops(monkeypatch):
    monkeypatch.setenv("FLOPSIGHT_PEAK_FLOPS", "fp32=1e12")

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp()

        def forward(self, x):
            return checkpoint(self.body, x, use_reentrant=False)

    seen, _ = watched(lambda m, o, live: one_step(m, o, rows(4)), model=Checkpointed(), every=1)

    (record,) = seen
    again = 2 * 4 * WIDE * HIDDEN  # the first product; torch stops before the second, whose output nothing needs
    assert record["flopsight/model_flops"] == mlp_flops(4)
    assert record["flopsight/mfu"] * record["flopsight/step_seconds"] * 1e12 == pytest.approx(mlp_flops(4))
    assert record["flopsight/hfu"] * record["flopsight/step_seconds"] * 1e12 == pytest.approx(mlp_flops(4) + again)


def test_without_a_known_peak_there_is_no_mfu_and_without_tokens_no_rate_of_them(monkeypatch):
    monkeypatch.delenv("FLOPSIGHT_PEAK_FLOPS", raising=False)

    (record,), _ = watched(lambda m, o, live: one_step(m, o, rows(4)), every=1)

    assert not {"flopsight/mfu", "flopsight/hfu", "flopsight/tokens_per_second"} & record.keys()
    assert record["flopsight/step_seconds"] > 0


def test_tokens_leave_padding_out_where_a_mask_says_so():
    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10)

        def forward(self, input_ids, attention_mask=None):
            return self.head(self.table(input_ids))

    ids = torch.ones(2, 5, dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    model = Text()
    optimizer = sgd(model)
    seen = []
    with flopsight.monitor(model, optimizer, every=1, to=[seen.append]):
        for kwargs in ({}, {"attention_mask": mask}):
            model(ids, **kwargs).sum().backward()
            optimizer.step()

    tokens = [r["flopsight/tokens_per_second"] * r["flopsight/step_seconds"] for r in seen]
    assert tokens == pytest.approx([10, 8])


def test_an_update_that_a_scaler_skips_is_a_step_and_is_counted_as_skipped():
    model, seen = mlp(), []
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with flopsight.monitor(model, optimizer, every=1, to=[seen.append]) as live:
        for scale in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(model(rows(4)).square().mean() * scale).backward()
            scaler.step(optimizer)
            scaler.update()

    assert model_flops(seen) == [mlp_flops(4)] * 3
    assert [interval.skipped for interval in live.summary().intervals] == [0, 1, 0]


def test_a_closure_that_is_called_several_times_is_one_step():
    model, seen = nn.Linear(WIDE, OUT, bias=False), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)
    calls = []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = model(rows(4)).square().mean()
        loss.backward()
        return loss

    with flopsight.monitor(model, optimizer, every=1, to=[seen.append]):
        optimizer.step(closure)

    assert model_flops(seen) == [len(calls) * 2 * 2 * 4 * WIDE * OUT]
