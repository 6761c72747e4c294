"""Losses, pooling, interpolation, embeddings and distances, by arithmetic and against their parts."""

import pytest
import torch
from formulas.calls import call, calls, cost, inside, record, total
from torch.nn import functional as F

image = torch.randn(2, 3, 8, 8, requires_grad=True)
PIXELS = 2 * 3 * 8 * 8
scores, other = torch.randn(6, 5, requires_grad=True), torch.rand(6, 5)
labels = torch.tensor([0, 1, 2, 3, 4, 0])


def both_ways(run):
    """FLOPs of the op itself forward and backward, without the ops around it."""
    image.grad = scores.grad = None  # else gradients are added up
    result = run()
    result = result[0] if isinstance(result, tuple) else result
    ours = lambda records: sum(
        cost(made).flops for made in records if not made.op.startswith(("aten.sum", "aten.detach"))
    )
    return ours(calls(run)), ours(calls(lambda: result.backward(torch.ones_like(result))))


@pytest.mark.parametrize(
    ("run", "forward", "backward"),
    [
        (lambda: F.mse_loss(scores, other), 60, 30),
        (lambda: F.mse_loss(scores, other, reduction="none"), 30, 30),
        (lambda: F.smooth_l1_loss(scores, other), 60, 30),
        (lambda: F.huber_loss(scores, other), 60, 30),
        (lambda: F.nll_loss(scores, labels), 6, 6),
        (lambda: F.multi_margin_loss(scores, labels), 60, 30),
        (lambda: F.soft_margin_loss(scores, other.sign()), 60 + 30, 30),
        (lambda: F.cross_entropy(scores, labels), 5 * 30 + 6, 4 * 30 + 6),
    ],
)
def test_losses(run, forward, backward):
    assert both_ways(run) == (forward, backward)


def test_ctc_counts_its_lattice():
    """10 steps, 2 samples, targets up to 3 labels long: 2 * 10 * 7 cells of 4 FLOPs."""
    steps = torch.randn(10, 2, 5).log_softmax(-1).requires_grad_()
    run = lambda: F.ctc_loss(steps, torch.ones(2, 3, dtype=torch.long), (10, 10), (3, 3), reduction="none")
    result = run()

    assert cost(call(run, "aten._ctc_loss")).flops == 4 * 2 * 10 * 7
    assert cost(call(lambda: result.sum().backward(), "aten._ctc_loss_backward")).flops == 4 * 2 * 10 * 7 + 100


@pytest.mark.parametrize(
    "run",
    [
        lambda: F.max_pool2d(image, 2),
        lambda: F.max_pool2d(image, 3, stride=1),
        lambda: F.avg_pool2d(image, 2),
        lambda: F.adaptive_avg_pool2d(image, 3),
        lambda: F.adaptive_max_pool2d(image, 2),
        lambda: F.fractional_max_pool2d(image, 2, output_size=4),
        lambda: F.max_pool3d(image, 2),
        lambda: F.avg_pool3d(image, 2),
    ],
)
def test_pooling_is_one_flop_an_input_element_both_ways(run):
    assert both_ways(run) == (PIXELS, PIXELS)


@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d", "adaptive_avg_pool2d"])
def test_undecomposed_pools_cost_the_same(name):
    with torch.inference_mode():
        assert cost(call(lambda: getattr(F, name)(image, 2), f"aten.{name}")).flops == PIXELS


@pytest.mark.parametrize(
    ("mode", "rank", "taps"),
    [("linear", 1, 2), ("bilinear", 2, 4), ("bicubic", 2, 16), ("trilinear", 3, 8)],
)
def test_interpolation_is_two_flops_a_tap(mode, rank, taps):
    source = torch.randn(2, 3, *[4] * rank, requires_grad=True)
    made = 2 * 3 * 8**rank

    assert both_ways(lambda: F.interpolate(source, scale_factor=2, mode=mode)) == (2 * taps * made, 2 * taps * made)


def test_nearest_neighbours_are_copied_and_their_gradients_added():
    assert both_ways(lambda: F.interpolate(image, scale_factor=2)) == (0, 4 * PIXELS)


def test_an_antialiasing_filter_widens_where_it_shrinks():
    """8x8 to 4x4: a linear filter spans 4 samples; 8 rows of 4 columns, then 4 rows of 4 columns."""
    shrink = lambda: F.interpolate(image, size=(4, 4), mode="bilinear", antialias=True)
    taps = 2 * 3 * (8 * 4 * 4 + 4 * 4 * 4)

    assert both_ways(shrink) == (2 * taps, 2 * taps)


@pytest.mark.parametrize(("mode", "taps"), [("bilinear", 4), ("bicubic", 16), ("nearest", 0)])
def test_sampling_a_grid(mode, taps):
    grid = torch.rand(2, 5, 5, 2, requires_grad=True)
    once = 2 * taps * 2 * 3 * 5 * 5

    assert both_ways(lambda: F.grid_sample(image, grid, mode=mode, align_corners=False)) == (once, 2 * once)


def test_padding_is_a_copy_whose_gradient_adds():
    assert both_ways(lambda: F.pad(image, (1, 1, 1, 1), mode="reflect")) == (0, 2 * 3 * 10 * 10)


def test_a_lookup_is_free_and_its_backward_adds_rows():
    table = torch.randn(10, 4, requires_grad=True)

    assert both_ways(lambda: F.embedding(labels, table)) == (0, 6 * 4)


@pytest.mark.parametrize(
    ("mode", "weighed", "forward", "backward"),
    [("sum", False, 24, 24), ("sum", True, 48, 48), ("mean", False, 24 + 2 * 4, 48), ("max", False, 24, 8)],
)
def test_bags_add_rows(mode, weighed, forward, backward):
    """6 lookups of 4 numbers in 2 bags."""
    table, weights = torch.randn(10, 4, requires_grad=True), torch.rand(6) if weighed else None
    run = lambda: F.embedding_bag(labels, table, torch.tensor([0, 2]), mode=mode, per_sample_weights=weights)
    result = run()

    made = call(lambda: result.sum().backward(), "aten._embedding_bag_backward")

    assert cost(call(run, "aten._embedding_bag")).flops == forward
    assert cost(made).flops == backward


def test_euclidean_distances_cost_what_their_kernel_runs():
    a, b = torch.randn(2, 30, 4), torch.randn(2, 7, 4)
    func = torch.ops.aten._euclidean_dist.default

    made = cost(record(func, (a, b), {}, func(a, b)))

    assert (made.macs, made.flops) == total(inside(func, a, b))
    assert made.macs == 2 * 30 * 7 * (4 + 2)


@pytest.mark.parametrize(
    ("p", "rows", "mode", "as_product"),
    [(2.0, 7, None, False), (2.0, 30, None, True), (2.0, 30, 2, False), (2.0, 7, 1, True), (1.0, 30, None, False)],
)
def test_distances_are_a_product_only_where_torch_makes_them_one(p, rows, mode, as_product):
    a, b = torch.randn(rows, 4), torch.randn(5, 4)
    func = torch.ops.aten._cdist_forward.default
    unfused = total(calls(lambda: torch.linalg.vector_norm(a[:, None] - b[None], p, dim=-1)))

    made = cost(record(func, (a, b, p, mode), {}, func(a, b, p, mode)))

    if as_product:
        assert made.macs == rows * 5 * 6
    else:
        assert (made.macs, made.flops) == unfused == (0, 2 * rows * 5 * 4)


def test_backwards_of_distances():
    a, b = torch.randn(7, 4, requires_grad=True), torch.randn(5, 4)
    far, near = torch.cdist(a, b, p=1.0), torch.pdist(a)

    assert cost(call(lambda: far.sum().backward(), "aten._cdist_backward")).flops == 4 * 7 * 5 * 4
    assert cost(call(lambda: torch.pdist(a), "aten._pdist_forward")).flops == 2 * 21 * 4
    assert cost(call(lambda: near.sum().backward(), "aten._pdist_backward")).flops == 4 * 21 * 4
