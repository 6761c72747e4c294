"""Loops of unusual shape: where their steps begin and end, what is in no step, and what steers their work."""

import io
import threading

import pytest
import torch
from loop.monitor.training import HIDDEN, OUT, WIDE, mlp, mlp_flops, model_flops, one_step, rows, sgd, watched
from torch import nn

import flopsight


def forward_flops(count):
    return 2 * count * (WIDE * HIDDEN + HIDDEN * OUT)


def test_a_loop_that_says_step_where_its_steps_begin_loses_none():
    def loop(model, optimizer, live):
        for count in (4, 5, 6):
            live.step()
            one_step(model, optimizer, rows(count))

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4), mlp_flops(5), mlp_flops(6)]


class Sleepy(io.BytesIO):
    """A file that moves the clock by a second for each write."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def write(self, data):
        self.clock[0] += 1.0
        return super().write(data)


def test_a_checkpoint_is_in_no_step_and_is_shown_apart(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("flopsight.capture.time.clock.perf_counter", lambda: clock[0])

    def loop(model, optimizer, live):
        for _ in range(3):
            clock[0] += 0.01
            one_step(model, optimizer, rows(4))
            torch.save(model.state_dict(), Sleepy(clock))

    seen, live = watched(loop, every=1)

    assert [round(record["flopsight/step_seconds"], 6) for record in seen] == [0.01] * 3
    assert [round(record["flopsight/data_wait_seconds"], 6) for record in seen] == [0.01] * 3
    whole = live.summary().whole
    assert whole.saves == 2  # the third follows the last step
    assert whole.saving_seconds >= 2
    assert "checkpoints, apart" in str(live.summary())


def test_what_a_validation_does_after_its_last_call_is_a_part_of_it(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("flopsight.capture.time.clock.perf_counter", lambda: clock[0])

    def loop(model, optimizer, live):
        for _ in range(3):
            one_step(model, optimizer, rows(4))
            clock[0] += 0.01  # within the step of the next update
            model.eval()
            with torch.no_grad():
                model(rows(100))
            clock[0] += 5.0  # metrics
            model.train()

    seen, live = watched(loop, every=1)

    assert [record["flopsight/step_seconds"] for record in seen] == [0.0] * 3
    assert live.summary().whole.validation_seconds == pytest.approx(2 * 5.01)


def test_a_call_without_gradients_that_begins_every_step_belongs_to_it():
    def loop(model, optimizer, live):
        for _ in range(3):
            optimizer.zero_grad()
            with torch.no_grad():
                target = model(rows(4))
            (model(rows(4)) - target).square().mean().backward()
            optimizer.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4) + forward_flops(4)] * 3


def test_calls_without_gradients_in_train_mode_now_and_then_are_validations():
    def loop(model, optimizer, live):
        for validates in (False, True, False, True, True, True):
            if validates:
                with torch.no_grad():
                    model(rows(100))
            one_step(model, optimizer, rows(4))

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 4 + [mlp_flops(4) + forward_flops(100)] * 2


def test_optimizers_that_step_within_backward_end_one_step_together():
    model, seen = mlp(), []
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda held: optimizers[held].step())

    with flopsight.monitor(model, every=1, to=seen.append):
        for _ in range(4):
            model(rows(4)).square().mean().backward()

    assert model_flops(seen) == [mlp_flops(4)] * 4


def test_two_monitors_that_end_in_the_order_of_their_beginning_leave_nothing(no_trace):
    model = mlp()
    optimizer, first, second = sgd(model), [], []
    one, other = (flopsight.monitor(model, optimizer, every=1, to=seen.append) for seen in (first, second))

    one.__enter__()
    one_step(model, optimizer, rows(4))
    other.__enter__()
    one_step(model, optimizer, rows(5))
    one.__exit__(None, None, None)
    one_step(model, optimizer, rows(6))
    other.__exit__(None, None, None)

    assert model_flops(first) == [mlp_flops(4), mlp_flops(5)]
    assert model_flops(second) == [mlp_flops(5), mlp_flops(6)]
    assert "__call__" not in vars(nn.Sequential)


def test_what_flopsight_runs_in_the_loop_is_not_the_loops_work():
    def loop(model, optimizer, live):
        for count in (4, 5, 6):
            one_step(model, optimizer, rows(count))
            flopsight.profile(model, (rows(3),))

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4), mlp_flops(5), mlp_flops(6)]


def test_a_profiler_of_ours_in_the_loop_changes_no_count():
    def loop(model, optimizer, live):
        profiler = flopsight.FlopsProfiler(model)
        for number in range(4):
            optimizer.zero_grad()
            if number == 2:
                profiler.start_profile()
            loss = model(rows(4)).square().mean()
            if number == 2:
                profiler.end_profile()
            loss.backward()
            optimizer.step()

    seen, live = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 4
    assert live.summary().notes == ()


def test_a_loop_on_another_thread_is_watched():
    def loop(model, optimizer, live):
        training = threading.Thread(target=lambda: [one_step(model, optimizer, rows(4)) for _ in range(3)])
        training.start()
        training.join()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 3


@pytest.mark.parametrize("given", [True, False])
def test_an_optimizer_that_steps_first_on_another_thread_is_not_the_loop_s(given):
    model, beside, seen = mlp(), mlp(), []
    optimizer = sgd(model)
    with flopsight.monitor(model, optimizer if given else None, every=1, to=seen.append) as live:
        other = threading.Thread(target=one_step, args=(beside, sgd(beside), rows(4)))
        other.start()
        other.join()
        for _ in range(3):
            one_step(model, optimizer, rows(4))

    assert model_flops(seen) == [mlp_flops(4)] * 3
    assert live.summary().notes == ()


def test_a_second_model_that_is_called_only_later_is_counted():
    one, other, seen = mlp(), nn.Linear(WIDE, OUT, bias=False), []
    optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)

    with flopsight.monitor([one, other], optimizer, every=1, to=seen.append):
        for number in range(4):
            loss = one(rows(4)).square().mean()
            if number >= 2:
                loss = loss + other(rows(3)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    both = mlp_flops(4) + 2 * 2 * 3 * WIDE * OUT  # forward, and the weight's gradient
    assert model_flops(seen) == [mlp_flops(4)] * 2 + [both] * 2


def test_a_layer_that_is_put_in_on_the_way_is_counted():
    model, seen = mlp(), []
    with flopsight.monitor(model, every=1, to=seen.append) as live:
        for number in range(3):
            if number == 1:
                model.append(nn.Linear(OUT, 3, bias=False))
            one_step(model, sgd(model), rows(4))
            live.step()

    grown = mlp_flops(4) + 2 * 3 * 4 * OUT * 3  # forward, and both gradients
    assert model_flops(seen) == [mlp_flops(4), grown, grown]


class Deep(nn.Module):
    """Runs as many of its layers as an attribute says, which is not looked at beforehand."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDE, WIDE, bias=False) for _ in range(4))
        self._depth = 4

    def forward(self, x):
        for layer in self.layers[: self._depth]:
            x = layer(x)
        return x


def test_work_that_an_attribute_steers_is_right_or_not_known():
    def loop(model, optimizer, live):
        for depth in (4, 4, 2, 4, 2, 4, 2):
            model._depth = depth
            one_step(model, optimizer, rows(4))

    seen, _ = watched(loop, Deep(), every=1)

    found = [record.get("flopsight/model_flops") for record in seen]
    expected = [2 * 4 * WIDE * WIDE * (3 * depth - 1) for depth in (4, 4, 2, 4, 2, 4, 2)]
    assert found[:2] == expected[:2]
    assert found[4:] == expected[4:]  # learned by then
    assert all(one in (None, right) for one, right in zip(found, expected, strict=True))


class Slim(nn.Module):
    """Uses as many of its hidden features as an attribute says, which is not looked at beforehand."""

    def __init__(self):
        super().__init__()
        self.up, self.down = (nn.Parameter(torch.ones(wide)) for wide in ((WIDE, HIDDEN), (HIDDEN, OUT)))
        self._used = HIDDEN

    def forward(self, x):
        return x @ self.up[:, : self._used] @ self.down[: self._used]


def test_a_width_that_an_attribute_steers_is_right_or_not_known():
    widths = (16, 16, 8, 8, 16, 8, 16)

    def loop(model, optimizer, live):
        for width in widths:
            model._used = width
            one_step(model, optimizer, rows(4))

    seen, live = watched(loop, Slim(), every=1)

    found = [record.get("flopsight/model_flops") for record in seen]
    expected = [2 * 4 * width * (2 * WIDE + 3 * OUT) for width in widths]  # the batch needs no gradient
    assert found[:2] == expected[:2]
    assert found[3:] == expected[3:]  # learned by then
    assert found[2] in (None, expected[2])
    assert "different work" in str(live.summary())


class Uneven(nn.Module):
    """Sends its rows to two equal layers, in shares that an attribute says."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDE, OUT, bias=False) for _ in range(2))
        self.first = 2

    def forward(self, x):
        return torch.cat([self.parts[0](x[: self.first]), self.parts[1](x[self.first :])])


def test_rows_that_move_between_equal_layers_are_the_same_work():
    def loop(model, optimizer, live):
        for first in (2, 5, 1, 7):
            model.first = first
            one_step(model, optimizer, rows(8))

    seen, live = watched(loop, Uneven(), every=1)

    assert model_flops(seen) == [2 * 2 * 8 * WIDE * OUT] * 4
    assert not live.summary().notes


def test_a_kind_of_step_that_comes_back_late_is_counted():
    depths = (4, 1, 3, 2, *(3, 2, 4) * 5, 1, 1)

    def loop(model, optimizer, live):
        for depth in depths:
            model._depth = depth
            one_step(model, optimizer, rows(4))

    seen, live = watched(loop, Deep(), every=1)

    expected = [2 * 4 * WIDE * WIDE * (3 * depth - 1) for depth in depths]
    assert [record.get("flopsight/model_flops") for record in seen] == [expected[0], None, *expected[2:]]
    assert not live.summary().whole.estimated


def test_code_compiled_elsewhere_hides_no_change_of_the_work():
    torch.compile(lambda x: x + 1, backend="eager")(rows(2))

    test_work_that_an_attribute_steers_is_right_or_not_known()


def test_compiling_on_the_way_is_no_change_of_the_work():
    model = mlp()

    def loop(model, optimizer, live):
        for number in range(6):
            if number == 2:
                model.compile(backend="aot_eager")
            one_step(model, optimizer, rows(4))

    seen, live = watched(loop, model, every=1)

    assert model_flops(seen) == [mlp_flops(4)] * 6
    assert not any("counted while they run" in note for note in live.summary().notes)


@pytest.mark.parametrize("whole", [True, False], ids=["compiled as a whole", "blocks compiled"])
def test_work_that_an_attribute_steers_in_compiled_code_is_right_or_not_known(whole):
    model = Deep()
    if whole:
        model.compile(backend="aot_eager")
    else:
        for layer in model.layers:
            layer.compile(backend="aot_eager")
    depths = (4, 4, 4, 2, 4, 2, 4, 2)

    def loop(model, optimizer, live):
        for depth in depths:
            model._depth = depth
            one_step(model, optimizer, rows(4))

    seen, _ = watched(loop, model, every=1)

    found = [record.get("flopsight/model_flops") for record in seen]
    expected = [2 * 4 * WIDE * WIDE * (3 * depth - 1) for depth in depths]
    assert found[:3] == expected[:3]
    assert all(one in (None, right) for one, right in zip(found, expected, strict=True))


class Counting(nn.Module):
    """Compiled anew in its second call, for a number that steers nothing."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, WIDE, bias=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


def test_code_that_is_compiled_again_for_the_same_work_stays_known():
    model = Counting()
    model.compile(backend="aot_eager")

    def loop(model, optimizer, live):
        for _ in range(6):
            one_step(model, optimizer, rows(4))

    seen, live = watched(loop, model, every=1)

    assert model_flops(seen) == [2 * 4 * WIDE * WIDE * 2] * 6
    assert not live.summary().notes


class Tokens(nn.Module):
    """A head over an embedding, called as a batch or by place."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)

    def forward(self, batch, attention_mask=None):
        ids = batch["input_ids"] if isinstance(batch, dict) else batch
        return self.head(self.embed(ids))


def test_a_mask_in_the_batch_or_by_its_place_tells_the_tokens():
    ids, mask = torch.ones(2, 6, dtype=torch.long), torch.ones(2, 6, dtype=torch.long)
    mask[1, 4:] = 0
    for arguments in (({"input_ids": ids, "attention_mask": mask},), (ids, mask)):

        def loop(model, optimizer, live, arguments=arguments):
            optimizer.zero_grad()
            model(*arguments).sum().backward()
            optimizer.step()

        _, live = watched(loop, Tokens(), every=1)

        assert live.summary().whole.tokens == 10


class Packed(nn.Module):
    """Scores within each document of a packed batch."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDE, WIDE, bias=False)

    def forward(self, x, cu_seqlens):
        bounds = cu_seqlens.tolist()
        parts = [self.query(x)[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]
        return torch.cat([(part @ part.T).sum(0) for part in parts])


def test_lengths_that_are_given_by_their_place_are_read():
    documents = ((4, 6), (2, 8), (5, 5))

    def loop(model, optimizer, live):
        for first, second in documents:
            optimizer.zero_grad()
            model(rows(10), torch.tensor([0, first, first + second])).sum().backward()
            optimizer.step()

    seen, _ = watched(loop, Packed(), every=1)

    def expected(lengths):
        query = len(lengths) * 10 * WIDE * WIDE  # made anew for each document
        scores = sum(WIDE * length**2 for length in lengths)
        return 2 * (2 * query + 3 * scores)

    assert model_flops(seen) == [expected(lengths) for lengths in documents]


def test_the_first_step_of_a_loss_with_products_waits_for_the_next_to_be_counted():
    def loop(model, optimizer, live):
        other = torch.ones(OUT, 3)
        for _ in range(3):
            optimizer.zero_grad()
            (model(rows(4)) @ other).sum().backward()
            optimizer.step()
            live.step()

    seen, _ = watched(loop, every=1)

    assert model_flops(seen) == [mlp_flops(4) + 2 * 2 * 4 * OUT * 3] * 3  # the product, and its gradient


def test_a_model_on_meta_is_counted():
    with torch.device("meta"):
        model = mlp()

    def loop(model, optimizer, live):
        one_step(model, optimizer, torch.empty(4, WIDE, device="meta"))

    seen, _ = watched(loop, model, every=1)

    assert model_flops(seen) == [mlp_flops(4)]


class Failing(nn.Module):
    """Raises in its third call."""

    def __init__(self):
        super().__init__()
        self.body, self.calls = mlp(), 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("a bad batch")
        return self.body(x)


def test_the_work_of_a_step_in_which_a_call_failed_is_absent():
    def loop(model, optimizer, live):
        for _ in range(5):
            try:
                one_step(model, optimizer, rows(4))
            except RuntimeError:
                continue

    seen, _ = watched(loop, model=Failing(), every=1)

    assert [record.get("flopsight/model_flops") for record in seen] == [mlp_flops(4), mlp_flops(4), None, mlp_flops(4)]
    assert ["flopsight/samples_per_second" in record for record in seen] == [True, True, False, True]
