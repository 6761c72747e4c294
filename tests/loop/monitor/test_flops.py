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


def test_two_optimizers_that_step_in_turn_make_one_step():
    g, d = nn.Linear(4, WIDE, bias=False), nn.Linear(WIDE, 1, bias=False)
    first, second = sgd(g), sgd(d)
    seen = []
    noise = torch.randn(5, 4)
    with flopsight.monitor([g, d], every=1, to=[seen.append]):
        for _ in range(3):
            d(g(noise).detach()).mean().backward()
            second.step()
            d(g(noise)).mean().backward()
            first.step()

    make, judge = 5 * 4 * WIDE, 5 * WIDE
    # the first generator call has no backward; the judge's second backward goes through to its input
    expected = 2 * ((make + judge + judge) + (make + judge + make + 2 * judge))
    assert model_flops(seen) == [expected] * 3


def test_products_of_the_loss_are_counted():
    head = torch.randn(OUT, 5, requires_grad=True)

    def loop(model, optimizer, live):
        for _ in range(4):
            optimizer.zero_grad()
            (model(rows(4)) @ head).square().mean().backward()
            optimizer.step()

    seen, live = watched(loop, every=1)

    product = 4 * OUT * 5
    # in backward the product has two: for the head, and for the model's output
    # the second step is counted while it runs, and the first is like it
    assert model_flops(seen) == [mlp_flops(4) + 2 * 3 * product] * 4
    assert "counted while they run" in str(live.summary())


def test_a_part_of_the_outputs_is_counted_as_it_ran():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(WIDE, 3, bias=False), nn.Linear(WIDE, 4, bias=False)

        def forward(self, x):
            return self.one(x), self.other(x)

    def loop(model, optimizer, live):
        for _ in range(3):
            model(rows(4))[0].sum().backward()
            optimizer.step()

    seen, _ = watched(loop, model=Two(), every=1)

    assert model_flops(seen[1:]) == [2 * (4 * WIDE * 3 + 4 * WIDE * 4 + 4 * WIDE * 3)] * 2


def test_a_graph_that_is_run_twice_has_two_backwards():
    def loop(model, optimizer, live):
        for _ in range(2):
            output = model(rows(4))
            output.sum().backward(retain_graph=True)
            output.square().sum().backward()
            optimizer.step()

    seen, _ = watched(loop, every=1)

    forward = 2 * (4 * WIDE * HIDDEN + 4 * HIDDEN * OUT)
    assert model_flops(seen) == [forward + 2 * (mlp_flops(4) - forward)] * 2


def test_a_model_with_hooks_is_counted_while_it_runs():
    def loop(model, optimizer, live):
        for count in (4, 4, 9, 9, 4):
            one_step(model, optimizer, rows(count))

    model = mlp()
    model[0].register_forward_hook(lambda module, args, output: None)
    seen, live = watched(loop, model=model, every=1)

    assert model_flops(seen) == [mlp_flops(count) for count in (4, 4, 9, 9, 4)]
    assert [interval.timed for interval in live.summary().intervals] == [0, 1, 0, 1, 1]


def test_a_gradient_penalty_is_counted_as_it_ran():
    def loop(model, optimizer, live):
        for _ in range(3):
            x = rows(4).requires_grad_()
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            slope.square().sum().backward()
            optimizer.step()

    seen, _ = watched(loop, model=nn.Linear(WIDE, OUT, bias=False), every=1)

    macs = 4 * WIDE * OUT
    # forward; the gradient of x; from that the gradient of the weight
    assert model_flops(seen[1:]) == [2 * 3 * macs] * 2


def test_after_many_shapes_the_flops_are_interpolated_and_labelled(monkeypatch):
    monkeypatch.setattr("flopsight.loop.monitor.counted_work.MOST_SHAPES", 2)

    def loop(model, optimizer, live):
        for count in (2, 6, 4, 12):
            one_step(model, optimizer, rows(count))

    seen, live = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(count) for count in (2, 6, 4, 12)]  # this model is linear in its rows
    assert [interval.estimated for interval in live.summary().intervals] == [0, 0, 1, 1]
    assert "interpolated" in str(live.summary())


def test_parts_of_a_model_that_the_loop_calls_by_themselves_are_counted():
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(WIDE, HIDDEN, bias=False), nn.Linear(HIDDEN, OUT, bias=False)

    def loop(model, optimizer, live):
        for _ in range(3):
            model.down(model.up(rows(4)).relu()).sum().backward()
            optimizer.step()

    seen, _ = watched(loop, model=Apart(), every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 3


def test_a_compiled_model_is_counted_and_stays_compiled():
    torch._dynamo.reset()
    model = mlp()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer, seen = sgd(model), []
    with flopsight.monitor(model, optimizer, every=1, to=[seen.append]):
        for _ in range(3):
            one_step(compiled, optimizer, rows(4))

    assert model_flops(seen) == [mlp_flops(4)] * 3
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1
    torch._dynamo.reset()


def test_a_model_that_is_compiled_after_a_few_steps_is_watched_on():
    torch._dynamo.reset()

    def loop(model, optimizer, live):
        called = model
        for number in range(5):
            if number == 2:
                called = torch.compile(model, backend="eager")
            one_step(called, optimizer, rows(4))

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 5
    torch._dynamo.reset()


def test_a_generator_whose_output_is_used_after_another_optimizer_stepped_is_counted_whole():
    g, d = nn.Linear(4, WIDE, bias=False), nn.Linear(WIDE, 1, bias=False)
    first, second = sgd(g), sgd(d)
    seen = []
    with flopsight.monitor([g, d], every=1, to=[seen.append]):
        for _ in range(3):
            made = g(torch.randn(5, 4))
            d(made.detach()).mean().backward()
            second.step()
            d(made).mean().backward()
            first.step()

    make, judge = 5 * 4 * WIDE, 5 * WIDE
    assert model_flops(seen) == [2 * ((make + make) + (judge + judge) + (judge + 2 * judge))] * 3


def test_outputs_that_nothing_uses_and_that_cost_nothing_change_nothing():
    def loop(model, optimizer, live):
        for length in (7, 9):
            model(torch.randn(2, length, 3))[0].sum().backward()  # the last states are not used
            optimizer.step()

    seen, live = watched(loop, model=nn.LSTM(3, 5, batch_first=True), every=1)

    # four gates; the fused backward makes the gradients of both factors of every product
    assert model_flops(seen) == [3 * 2 * 2 * length * 4 * 5 * (3 + 5) for length in (7, 9)]
    assert not live.summary().notes


def test_a_validation_in_eval_mode_that_keeps_gradients_on_is_in_no_step():
    def loop(model, optimizer, live):
        for _ in range(3):
            model.eval()
            model(rows(100))
            model.train()
            one_step(model, optimizer, rows(4))

    seen, live = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 3
    assert live.summary().whole.validations == 3


def test_a_forward_called_by_hand_is_named_with_the_next_move():
    def loop(model, optimizer, live):
        model.forward(rows(4)).sum().backward()
        optimizer.step()

    seen, live = watched(loop, model=nn.Linear(WIDE, OUT), every=1)

    assert "flopsight/model_flops" not in seen[0]
    assert "call model(...), not model.forward(...)" in str(live.summary())
