"""bitsandbytes: products with weights of 8 or 4 bits, and the quantising around them.

Finding the largest magnitude of a row or block is a reduction, one FLOP an input element; rounding to integers is none.
Applying the scales of what is multiplied is part of the product and not counted, as with torch's own quantised ops.
"""

from ..results.costs import Cost
from ..results.records import OpRecord
from .elementwise import elements
from .matmul import added, products
from .registry import formula, named


@formula(*named("bitsandbytes", "int8_linear_matmul int8_scaled_mm"))
def int8_product(call: OpRecord) -> Cost:
    """Rows of integers times the rows of a weight, and the sum with a bias."""
    return products(call, call.tensor("A").numel * call.shape("B")[0], added(call))


@formula("bitsandbytes.int8_mixed_scaled_mm")
def int8_mixed_product(call: OpRecord) -> Cost:
    """The same, with columns of large values multiplied again in their own precision."""
    outputs = call.shape("CB")[0]
    outliers = call.tensor("outlier_cols").numel if call.args.get("outlier_cols") is not None else 0
    rows = call.tensor("CA").numel // call.shape("CA")[-1]
    again = rows * outliers * outputs
    return products(call, call.tensor("CA").numel * outputs + again, added(call) + (rows * outputs if outliers else 0))


@formula(*named("bitsandbytes", "gemv_4bit gemm_4bit"))
def product_4bit(call: OpRecord) -> Cost:
    """Activations times a packed weight; its shape is an argument, because the packed one does not show it."""
    return products(call, call.tensor("A").numel * call.args["shapeB"][0], added(call))


@formula(*named("bitsandbytes", "int8_vectorwise_quant int8_double_quant quantize_4bit quantize_blockwise"))
def quantise(call: OpRecord) -> Cost:
    """The largest magnitudes, by row, by row and column, or by block."""
    directions = 2 if call.op.endswith("double_quant") else 1
    return Cost(flops=directions * elements(call.tensor("A")))


@formula(*named("bitsandbytes", "int8_vectorwise_dequant dequantize_4bit dequantize_blockwise"))
def dequantise(call: OpRecord) -> Cost:
    """Every number times its scale."""
    return Cost(flops=elements(call.output))


@formula("bitsandbytes.int8_mm_dequant")
def dequantise_product(call: OpRecord) -> Cost:
    """Every sum times the scales of its row and column, and the sum with a bias."""
    return Cost(flops=2 * elements(call.output) + added(call))
