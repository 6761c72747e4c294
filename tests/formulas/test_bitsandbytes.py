"""bitsandbytes' products by 8 and 4 bits: records as its schemas have them, costs by arithmetic."""

import pytest

from flopsight.formulas import price
from flopsight.results.costs import Cost
from flopsight.results.records import OpRecord, TensorMeta

ROWS, WIDTH, OUTPUTS = 6, 32, 16
PRODUCTS = ROWS * WIDTH * OUTPUTS
ADDED = ROWS * OUTPUTS


def tensor(*shape, dtype="float16"):
    strides = tuple(int(step) for step in _strides(shape))
    return TensorMeta(shape, strides, dtype, "cuda")


def _strides(shape):
    step = 1
    found = []
    for size in reversed(shape):
        found.append(step)
        step *= size
    return reversed(found)


GIVEN = tensor(ROWS, WIDTH)
ROUNDED = tensor(ROWS, WIDTH, dtype="int8")
WEIGHT = tensor(OUTPUTS, WIDTH, dtype="int8")
PACKED = tensor(OUTPUTS * WIDTH // 2, 1, dtype="uint8")
MADE = tensor(ROWS, OUTPUTS)
ROW_STATS, COLUMN_STATS = tensor(ROWS, dtype="float32"), tensor(OUTPUTS, dtype="float32")
BLOCKS = tensor(OUTPUTS * WIDTH // 64, dtype="float32")
CODE, BIAS = tensor(16, dtype="float32"), tensor(OUTPUTS)

CALLS = [
    ("int8_linear_matmul", {"A": ROUNDED, "B": WEIGHT}, (tensor(ROWS, OUTPUTS, dtype="int32"),), PRODUCTS, 0),
    ("int8_scaled_mm", {"A": ROUNDED, "B": WEIGHT, "row_stats": ROW_STATS, "col_stats": COLUMN_STATS, "bias": None},
     (MADE,), PRODUCTS, 0),
    ("int8_scaled_mm", {"A": ROUNDED, "B": WEIGHT, "row_stats": ROW_STATS, "col_stats": COLUMN_STATS, "bias": BIAS},
     (MADE,), PRODUCTS, ADDED),
    ("int8_mixed_scaled_mm", {"A": GIVEN, "CA": ROUNDED, "CB": WEIGHT, "SCA": ROW_STATS, "SCB": COLUMN_STATS,
                              "outlier_cols": tensor(2, dtype="int64"), "bias": None},
     (MADE,), PRODUCTS + ROWS * 2 * OUTPUTS, ADDED),
    ("gemv_4bit", {"A": tensor(1, WIDTH), "B": PACKED, "shapeB": (OUTPUTS, WIDTH), "absmax": BLOCKS, "code": CODE,
                   "blocksize": 64}, (tensor(1, OUTPUTS),), WIDTH * OUTPUTS, 0),
    ("gemm_4bit", {"A": GIVEN, "B": PACKED, "shapeB": (OUTPUTS, WIDTH), "absmax": BLOCKS, "blocksize": 64,
                   "quant_type": "nf4", "bias": BIAS}, (MADE,), PRODUCTS, ADDED),
    ("int8_vectorwise_quant", {"A": GIVEN, "threshold": 0.0}, (ROUNDED, ROW_STATS), 0, ROWS * WIDTH),
    ("int8_double_quant", {"A": GIVEN, "threshold": 0.0}, (ROUNDED, ROUNDED, ROW_STATS, ROW_STATS), 0, 2 * ROWS * WIDTH),
    ("int8_vectorwise_dequant", {"A": ROUNDED, "stats": ROW_STATS}, (tensor(ROWS, WIDTH, dtype="float32"),), 0, ROWS * WIDTH),
    ("int8_mm_dequant", {"A": tensor(ROWS, OUTPUTS, dtype="int32"), "row_stats": ROW_STATS, "col_stats": COLUMN_STATS,
                         "bias": BIAS}, (MADE,), 0, 3 * ADDED),
    ("quantize_4bit", {"A": tensor(OUTPUTS, WIDTH), "blocksize": 64, "quant_type": "nf4"}, (PACKED, BLOCKS), 0,
     OUTPUTS * WIDTH),
    ("dequantize_4bit", {"A": PACKED, "absmax": BLOCKS, "blocksize": 64, "quant_type": "nf4",
                         "shape": (OUTPUTS, WIDTH)}, (tensor(OUTPUTS, WIDTH),), 0, OUTPUTS * WIDTH),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args", "outputs", "macs", "adds"), CALLS)
def test_products_count_as_multiply_accumulates_whatever_their_bits(op, args, outputs, macs, adds):
    priced = price(OpRecord(f"bitsandbytes.{op}", "default", args, outputs, "other", {}))

    assert priced.status == "counted", priced.why
    assert (priced.cost.macs, priced.cost.flops) == (macs, 2 * macs + adds)


def test_the_bytes_of_a_packed_weight_are_those_that_it_takes():
    args = {
        "A": tensor(1, WIDTH),
        "B": PACKED,
        "shapeB": (OUTPUTS, WIDTH),
        "absmax": BLOCKS,
        "code": CODE,
        "blocksize": 64,
    }

    cost = price(OpRecord("bitsandbytes.gemv_4bit", "default", args, (tensor(1, OUTPUTS),), "other", {})).cost

    half_a_byte_each = OUTPUTS * WIDTH // 2
    scales, levels = 4 * OUTPUTS * WIDTH // 64, 4 * 16
    assert cost == Cost(
        WIDTH * OUTPUTS, 2 * WIDTH * OUTPUTS, 2 * WIDTH + half_a_byte_each + scales + levels + 2 * OUTPUTS
    )
