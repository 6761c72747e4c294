"""torch's FlopCounterMode beside our records: what it would say of each op, and which of its faults that shows."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from flopsight.formulas import price
from flopsight.results.records import OpRecord, TensorMeta

SDPA, GROUPED, LSTM, GROUPED_MM = FAULTS = (
    "attention on the CPU counts nothing",
    "the backward of a grouped convolution is counted as if it had one group",
    "the CPU's fused LSTM counts nothing",
    "grouped_mm counts nothing",
)
OPS = {
    "aten._scaled_dot_product_flash_attention_for_cpu": SDPA,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": SDPA,
    "aten.mkldnn_rnn_layer": LSTM,
    "aten.mkldnn_rnn_layer_backward": LSTM,
    "aten._grouped_mm": GROUPED_MM,
}


def fault(record: OpRecord) -> str:
    """The fault that makes torch's counter disagree on a record; an op that is not on the list is its own name."""
    if record.op == "aten.convolution_backward" and record.args["groups"] > 1:
        return GROUPED
    return OPS.get(record.op, record.op)


def attribution(records: Iterable[OpRecord]) -> tuple[int, Counter[str]]:
    """The MACs that torch's counter has for these ops, and what it lacks (or has too much of) by fault."""
    theirs, missing = 0, Counter()
    for record in records:
        said = said_by_torch(record)
        theirs += said * record.count
        if price(record).cost.macs != said:
            missing[fault(record)] += (price(record).cost.macs - said) * record.count
    return theirs, missing


def said_by_torch(record: OpRecord) -> int:
    """The MACs of a record by torch's own formula; nothing where it has none."""
    space, name = record.op.split(".")
    packet = getattr(getattr(torch.ops, space), name, None)
    counted = flop_registry.get(packet)
    if counted is None:
        return 0
    named = {one.name for one in getattr(packet, record.overload)._schema.arguments if one.kwarg_only}
    args = [_tensors(value) for key, value in record.args.items() if key not in named]
    kwargs = {key: _tensors(value) for key, value in record.args.items() if key in named}
    outputs = [_tensors(output) for output in record.outputs]
    if "output_mask" in record.args:
        given = iter(outputs)
        outputs = [next(given) if wanted else None for wanted in record.args["output_mask"]]
    return counted(*args, **kwargs, out_val=outputs[0] if len(outputs) == 1 else tuple(outputs)) // 2


def _tensors(value: Any) -> Any:
    if isinstance(value, TensorMeta):
        return torch.empty(value.shape, device="meta")
    return [_tensors(item) for item in value] if isinstance(value, tuple) else value
