"""Custom ops: their torch ops are counted, and what leaves torch inside them is unknown by name."""

import ctypes
from typing import Sequence  # noqa: UP035  torch reads this name alone before 2.7

import pytest
import torch

import flopsight

ROWS, WIDTH, OUT = 4, 8, 16
ADDITIONS = ROWS * WIDTH
PRODUCT = ROWS * WIDTH * OUT
X, W = torch.ones(ROWS, WIDTH), torch.ones(WIDTH, OUT)


@torch.library.custom_op("expansion::whole", mutates_args=())
def whole(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x + 1) @ w


@torch.library.custom_op("expansion::through_numpy", mutates_args=())
def through_numpy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy((x + 1).numpy() @ w.numpy())


@torch.library.custom_op("expansion::numpy_first", mutates_args=())
def numpy_first(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() + 1) @ w


@torch.library.custom_op("expansion::by_pointer", mutates_args=())
def by_pointer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(x.shape[0], w.shape[1])
    ctypes.memset(made.data_ptr(), 0, made.nbytes)
    return made


@torch.library.custom_op("expansion::out_of_nowhere", mutates_args=())
def out_of_nowhere(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    _ = x + 1
    return torch.empty(x.shape[0], w.shape[1])


@torch.library.custom_op("expansion::copies", mutates_args=())
def copies(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("expansion::writes", mutates_args={"x"})
def writes(x: torch.Tensor, w: torch.Tensor) -> None:
    torch._foreach_add_([x], 1.0)


@torch.library.custom_op("expansion::writes_through_numpy", mutates_args={"x"})
def writes_through_numpy(x: torch.Tensor, w: torch.Tensor) -> None:
    x.numpy()[:] = 1


@torch.library.custom_op("expansion::nests", mutates_args=())
def nests(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return through_numpy(x, w) + 1


def counted(op):
    with flopsight.recording() as recording:
        op(X.clone(), W)
    return recording.profile


@pytest.mark.parametrize(
    ("op", "macs", "flops"),
    [(whole, PRODUCT, ADDITIONS + 2 * PRODUCT), (copies, 0, 0), (writes, 0, ADDITIONS)],
)
def test_a_body_of_torch_ops_is_counted_by_them_and_not_unknown(op, macs, flops):
    profile = counted(op)

    assert (profile.macs, profile.flops) == (macs, flops)
    assert profile.coverage.complete


@pytest.mark.parametrize(
    ("op", "flops"),
    [
        (through_numpy, ADDITIONS),
        (numpy_first, 2 * PRODUCT),
        (by_pointer, 0),
        (out_of_nowhere, ADDITIONS),
        (writes_through_numpy, 0),
    ],
)
def test_a_body_that_leaves_torch_is_unknown_and_the_torch_ops_in_it_still_count(op, flops):
    profile = counted(op)

    assert profile.flops == flops
    assert list(profile.coverage.unknown) == [f"expansion.{op._name}"]
    assert profile.coverage.unknown_calls == 1


def test_of_two_ops_one_inside_the_other_only_the_one_that_leaves_is_unknown():
    profile = counted(nests)

    assert list(profile.coverage.unknown) == ["expansion.through_numpy"]
    assert profile.flops == ADDITIONS + ROWS * OUT


@torch.library.custom_op("expansion::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("expansion::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.custom_op("expansion::product_of", mutates_args=())
def product_of(xs: Sequence[torch.Tensor]) -> torch.Tensor:
    return xs[0] * xs[1]


doubled.register_autograd(lambda _ctx, grad: torch.from_numpy((grad + 1).numpy() * 2))
tripled.register_autograd(lambda _ctx, grad: grad * 3)
product_of.register_autograd(lambda _ctx, grad: [torch.from_numpy(grad.numpy() * 1), grad])


@pytest.mark.parametrize(
    ("op", "unknown"),
    [
        (doubled, ["expansion.doubled_backward"]),
        (tripled, []),
        (lambda x: product_of([x, x]), ["expansion_product_of_default_backward"]),
    ],
)
def test_a_registered_backward_that_leaves_torch_is_unknown(op, unknown):
    x = X.clone().requires_grad_()

    with flopsight.recording() as recording:
        op(x).backward(X)

    assert list(recording.profile.coverage.unknown) == unknown
    assert all(miss.calls == 1 for miss in recording.profile.coverage.unknown.values())


def test_a_result_made_outside_torch_is_unknown_also_where_an_op_used_the_same_memory_before():
    @torch.library.custom_op("expansion::by_hand", mutates_args=())
    def by_hand(x: torch.Tensor) -> torch.Tensor:
        numbers = (x + 1).tolist()
        return torch.tensor([[2 * number for number in row] for row in numbers])

    for _ in range(5):
        with flopsight.recording() as recording:
            by_hand(X)

        assert list(recording.profile.coverage.unknown) == ["expansion.by_hand"]
