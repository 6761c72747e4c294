"""Calls of layers that look alike: each counts what it ran, whatever ran before it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import flopsight

BATCH, WIDTH = 4, 8
SQUARE = BATCH * WIDTH * WIDTH
"""MACs of a square Linear on the batch."""


def square() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH)


def batch(size: int = BATCH) -> torch.Tensor:
    return torch.randn(size, WIDTH)


class Seen(TorchDispatchMode):
    """Counts the matrix products that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.products += func is torch.ops.aten.addmm.default
        return func(*args, **(kwargs or {}))


def test_equal_calls_of_equal_layers_all_count():
    model = nn.Sequential(square(), square(), nn.ReLU())
    with flopsight.recording(model) as recording:
        for _ in range(3):
            model(batch())
    profile = recording.profile
    assert profile.macs == 3 * 2 * SQUARE
    assert [profile[name].macs for name in ("0", "1", "2")] == [3 * SQUARE, 3 * SQUARE, 0]
    # a product is two FLOPs a MAC, its bias and the activation one an element
    assert profile.flops == 3 * (2 * (2 * SQUARE + BATCH * WIDTH) + BATCH * WIDTH)


def test_another_recording_counts_the_same():
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(inplace=True)).eval()
    image = torch.randn(2, 3, 9, 9)
    profiles = []
    for _ in range(2):
        with flopsight.recording(model) as recording:
            model(image)
        profiles.append((recording.profile.macs, recording.tape.views(), [*recording.tape.records()]))
    first, second = profiles
    assert second == first
    assert first[0] == 2 * 6 * 7 * 7 * 3 * 3 * 3


def test_other_shapes_types_and_settings_are_other_calls():
    model = nn.Conv2d(2, 4, 3)
    with flopsight.recording(model) as recording, torch.no_grad():
        model(torch.randn(1, 2, 8, 8))
        model(torch.randn(1, 2, 6, 6))
        model.stride = (2, 2)
        model(torch.randn(1, 2, 8, 8))
        model.stride = (1, 1)
        model.double()
        model(torch.randn(1, 2, 8, 8, dtype=torch.double))
    product = 4 * 2 * 3 * 3
    assert recording.profile.macs == product * (6 * 6 + 4 * 4 + 3 * 3 + 6 * 6)


def test_a_weight_of_another_shape_is_another_call():
    model = square()
    with flopsight.recording(model) as recording:
        model(batch())
        model.weight.data, model.bias.data = torch.randn(2 * WIDTH, WIDTH), torch.randn(2 * WIDTH)
        model(batch())
        model.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
        model.bias = None
        model(batch())
    assert recording.profile.macs == SQUARE + 2 * SQUARE + SQUARE
    assert recording.profile.flops == 2 * recording.profile.macs + BATCH * WIDTH + BATCH * 2 * WIDTH


def test_what_a_hook_does_counts():
    model = square()
    with flopsight.recording(model) as recording:
        model(batch())
        with_hook = model.register_forward_hook(lambda _module, given, output: output @ torch.ones(WIDTH, WIDTH))
        model(batch())
        with_hook.remove()
        everywhere = nn.modules.module.register_module_forward_pre_hook(
            lambda _module, given: (given[0] @ torch.ones(WIDTH, WIDTH),)
        )
        model(batch())
        everywhere.remove()
    assert recording.profile.macs == 5 * SQUARE


def test_a_forward_of_a_modules_own_counts():
    model = nn.Sequential(square(), square())
    model[1].forward = lambda given: F.linear(F.linear(given, model[1].weight), model[1].weight)
    with flopsight.recording(model) as recording:
        model(batch())
    assert recording.profile.macs == 3 * SQUARE


def test_another_method_of_a_convolution_counts():
    model = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3))
    padded = model[1]
    padded._conv_forward = lambda given, weight, bias: F.conv1d(F.pad(given, (1, 1), mode="circular"), weight, bias)
    with flopsight.recording(model) as recording:
        model(torch.randn(1, 2, 12))
    assert recording.profile.macs == 2 * 2 * 3 * (10 + 10)


def test_a_class_whose_forward_was_replaced_counts(monkeypatch):
    model = square()
    with flopsight.recording(model) as before:
        model(batch())
    monkeypatch.setattr(
        nn.Linear, "forward", lambda self, given: F.linear(F.linear(given, self.weight), self.weight, self.bias)
    )
    with flopsight.recording(model) as after:
        model(batch())
    assert (before.profile.macs, after.profile.macs) == (SQUARE, 2 * SQUARE)


def test_a_function_that_was_replaced_counts(monkeypatch):
    model, linear = square(), F.linear
    with flopsight.recording(model) as before:
        model(batch())
    monkeypatch.setattr(F, "linear", lambda given, weight, bias: linear(linear(given, weight), weight, bias))
    with flopsight.recording(model) as after:
        model(batch())
    assert (before.profile.macs, after.profile.macs) == (SQUARE, 2 * SQUARE)


@pytest.mark.parametrize("outside", [True, False])
def test_a_mode_of_the_users_sees_every_op(outside):
    model, seen = square(), Seen()

    def calls() -> None:
        for _ in range(3):
            model(batch())

    if outside:
        with seen, flopsight.recording(model) as recording:
            calls()
    else:
        with flopsight.recording(model) as recording:
            calls()
            with seen:
                calls()
    assert seen.products == 3
    assert recording.profile.macs == (3 if outside else 6) * SQUARE


def test_a_function_mode_may_change_what_runs():
    class Twice(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is F.linear:
                func(*args)
            return func(*args, **(kwargs or {}))

    model = square()
    with flopsight.recording(model) as recording:
        model(batch())
        with Twice():
            model(batch())
    assert recording.profile.macs == 3 * SQUARE


def test_torch_func_has_shapes_of_its_own():
    model = square()
    with flopsight.recording(model) as recording, torch.no_grad():
        model(torch.randn(WIDTH))
        torch.func.vmap(model)(batch(3))
        torch.func.vmap(model)(batch(5))
    assert recording.profile.macs == (1 + 3 + 5) * WIDTH * WIDTH


def test_autocast_casts_after_a_call_without_it():
    model = square()
    with torch.no_grad(), flopsight.recording(model) as recording:
        model(batch())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert model(batch()).dtype is torch.bfloat16
        model(batch())
    assert recording.profile.macs == 3 * SQUARE
    dtypes = {op.outputs[0].dtype for op in recording.tape.records() if op.op == "aten.addmm"}
    assert dtypes == {"float32", "bfloat16"}


def test_training_counts_and_saves_as_without():
    """Backward of two layers: both weights' gradients, and one of an input."""
    model = nn.Sequential(square(), nn.ReLU(), square())
    profiles = []
    for _ in range(2):
        with flopsight.recording(model) as recording:
            for _ in range(2):
                model(batch()).sum().backward()
        profiles.append(recording.profile)
    for profile in profiles:
        assert profile.macs == 2 * 2 * SQUARE
        assert profile.backward.macs == 2 * 3 * SQUARE
        # the input of the second layer is what the activation made, which keeps it too; the batch itself is an input
        assert profile.activation_bytes == BATCH * WIDTH * 4


def test_saved_tensor_hooks_of_the_users_run_ops_that_count():
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = square()

        def forward(self, given):
            with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept * 2, lambda kept: kept / 2):
                return self.layer(given)

    model = Kept()
    with flopsight.recording(model) as plain:
        model.layer(batch())
    with flopsight.recording(model) as recording:
        model(batch())
        model(batch())
    # the layer keeps its input only, and an element costs one more FLOP when it is packed
    assert recording.profile.flops == 2 * (plain.profile.flops + BATCH * WIDTH)


def test_a_value_that_a_layer_reads_is_read_at_every_call():
    model = nn.BatchNorm1d(WIDTH, momentum=None)
    with flopsight.recording(model) as recording:
        for _ in range(3):
            model(batch())
    factors = {op.args["momentum"] for op in recording.tape.records() if op.op.endswith("batch_norm")}
    assert factors == {1.0, 1 / 2, 1 / 3}


def test_sparse_weights_of_equal_shape_count_what_they_hold():
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    with torch.no_grad(), flopsight.recording(model) as recording:
        for full in (2, 5):
            weight = torch.zeros(WIDTH, WIDTH)
            weight.view(-1)[:full] = 1
            model.weight = nn.Parameter(weight.to_sparse(), requires_grad=False)
            model(batch())
    assert recording.profile.macs == BATCH * (2 + 5)


def test_a_weight_of_another_class_runs_its_own_ops():
    """A weight of two tensors: each product is made twice."""
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    model.weight = nn.Parameter(TwoTensor(torch.ones(WIDTH, WIDTH), torch.ones(WIDTH, WIDTH)))
    with torch.no_grad(), flopsight.recording(model) as recording:
        for _ in range(2):
            model(batch())
    assert recording.profile.macs == 2 * 2 * SQUARE


def test_a_layer_that_trains_is_another_call():
    model = nn.Dropout(0.5)
    with flopsight.recording(model) as recording:
        model.eval()(batch())
        model.train()(batch())
        model.eval()(batch())
    drawn = [op for op in recording.tape.records() if op.module == "" and op.op != "aten.randn"]
    assert sum(op.count for op in drawn if op.kind == "random") == 1


def test_the_order_of_a_tensor_in_memory_stays_with_its_call():
    model = nn.ReLU()
    rows = torch.randn(WIDTH, WIDTH)
    with flopsight.recording(model) as recording:
        model(rows)
        model(rows.t())
        model(rows)
    given = [op.args["self"].stride for op in recording.tape.records() for _ in range(op.count) if op.op == "aten.relu"]
    assert sorted(given) == [(1, WIDTH), (WIDTH, 1), (WIDTH, 1)]


def test_a_negative_view_is_made_plain_before_it_is_used():
    """A tensor with the same strides as a plain one: torch writes its negated numbers down first."""
    pairs = torch.randn(BATCH, WIDTH, 2)
    plain, negative = pairs[..., 1], torch.view_as_complex(pairs).conj().imag
    assert negative.is_neg()
    assert negative.stride() == plain.stride()
    model = nn.ReLU()
    with flopsight.recording(model) as recording:
        model(plain)
        model(negative)
    names = [op.op for op in recording.tape.records()]
    assert names.count("aten.relu") == 2
    assert len(names) > 2


def test_a_layer_inside_a_custom_op_is_part_of_it():
    model = square()

    @torch.library.custom_op("flopsight_test::through_a_layer", mutates_args=())
    def through(given: torch.Tensor) -> torch.Tensor:
        return model(given)

    with torch.no_grad(), flopsight.recording(model) as recording:
        for _ in range(2):
            model(batch())
            through(batch())
    assert recording.profile.macs == 4 * SQUARE
    assert not recording.profile.coverage.unknown


def test_an_exception_leaves_the_recording_watching():
    model = nn.Sequential(square(), square())
    with flopsight.recording(model) as recording:
        model(batch())
        with pytest.raises(RuntimeError):
            model(torch.randn(BATCH, WIDTH + 1))
        with pytest.raises(IndexError):
            nn.Embedding(2, 2)(torch.tensor([5]))
        model(batch())
        batch() @ torch.ones(WIDTH, WIDTH)
    assert recording.profile.macs == 5 * SQUARE


def test_a_counter_that_another_mode_took_off_counts_no_more_calls():
    model = square()
    with flopsight.recording(model):
        model(batch())
    with Seen():
        recording = flopsight.recording(model)
        recording.__enter__()
        model(batch())
    model(batch())
    recording.__exit__(None, None, None)
    assert recording.profile.macs == SQUARE
