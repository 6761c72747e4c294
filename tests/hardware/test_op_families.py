"""An op has the efficiency of its kind, which its name and its shapes tell."""

import pytest

from flopsight.hardware.op_families import BROADER, family
from flopsight.results.costs import Cost, OpRow


@pytest.mark.parametrize(
    ("op", "shapes", "kind"),
    [
        ("aten.convolution", ((8, 64, 56, 56), (128, 64, 3, 3)), "convolution"),
        ("aten.convolution", ((8, 3, 224, 224), (64, 3, 7, 7)), "stem convolution"),
        ("aten.convolution", ((8, 64, 56, 56), (64, 1, 3, 3)), "grouped convolution"),
        ("aten.convolution", ((8, 64, 56, 56), (64, 1, 7, 7)), "wide grouped convolution"),
        ("aten.convolution_backward", ((8, 128, 56, 56), (8, 64, 56, 56), (128, 64, 3, 3)), "convolution"),
        ("aten.mm", ((64, 768), (768, 50257)), "odd matmul"),
        ("aten.addmm", ((768,), (77, 768), (768, 768)), "matmul"),
        ("aten.bmm", ((512, 49, 32), (512, 32, 49)), "small matmuls"),
        ("aten.bmm", ((16, 512, 64), (16, 64, 512)), "matmul"),
        ("aten._scaled_dot_product_flash_attention", ((1, 2, 3, 4),), "attention"),
        ("aten._grouped_mm", ((16, 64), (8, 64, 128), (8,)), "grouped matmul"),
    ],
)
def test_matrix_work_by_its_shapes(op, shapes, kind):
    assert family(OpRow(op, "forward", 1, Cost(macs=1), shapes=(shapes,))) == kind


@pytest.mark.parametrize(
    ("shapes", "kind"),
    [
        (((1, 4096), (4096, 4096)), "thin matmul"),
        (((8, 768), (768, 50257)), "thin matmul"),  # a head of any number of words is read all the same
        (((65536, 128), (128, 512)), "narrow matmul"),
    ],
)
def test_a_product_that_memory_binds_reads_its_weights_or_its_rows(shapes, kind):
    row = OpRow("aten.mm", "forward", 1, Cost(macs=1), shapes=(shapes,))

    assert family(row, by_compute=False) == kind


@pytest.mark.parametrize(
    ("queries", "kind"), [(1, "decoding attention"), (16, "decoding attention"), (1024, "attention")]
)
def test_attention_of_few_queries_reads_its_keys_and_values(queries, kind):
    shapes = (8, 32, queries, 128), (8, 8, 1024, 128), (8, 8, 1024, 128)
    row = OpRow("aten._scaled_dot_product_flash_attention", "forward", 1, Cost(macs=1), shapes=(shapes,))

    assert family(row, by_compute=False) == kind
    assert family(row) == "attention"


@pytest.mark.parametrize(
    ("op", "kind", "shapes", "found"),
    [
        ("aten.add", "pointwise", ((8, 16), (8, 16)), "pointwise"),
        ("aten.add", "pointwise", ((8, 16), ()), "pointwise"),
        ("aten.mul", "pointwise", ((8, 16), (16,)), "broadcast"),
        ("aten.gelu", "pointwise", ((8, 16),), "gelu"),
        ("aten.silu", "pointwise", ((8, 16),), "exponential"),
        ("aten.relu_", "pointwise", ((8, 16),), "pointwise"),
        ("aten.hardswish_", "pointwise", ((8, 16),), "pointwise"),
        ("aten._to_copy", "copy", ((8, 16),), "copy"),
        ("aten.clone", "copy", ((8, 16),), "turned copy"),
        ("aten.mean", "reduction", ((8, 16),), "reduction"),
        ("aten.native_layer_norm", "other", ((8, 1024), (1024,)), "norm"),
        ("aten.native_layer_norm", "other", ((8, 96), (96,)), "narrow norm"),
        ("aten._softmax", "other", ((8, 4, 49, 49),), "narrow softmax"),
        ("aten.native_batch_norm", "other", ((8, 64, 7, 7),), "batch norm"),
        ("aten.max_pool2d_with_indices", "other", ((8, 64, 7, 7),), "pooling"),
    ],
)
def test_work_without_products_by_its_name_and_shapes(op, kind, shapes, found):
    assert family(OpRow(op, "forward", 1, Cost(bytes=1), kind=kind, shapes=(shapes,))) == found


def test_every_kind_that_stands_in_for_another_stands_for_itself():
    assert not set(BROADER) & set(BROADER.values())
