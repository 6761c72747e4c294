"""Records of real calls, and handmade ones whose argument names torch's schema vouches for."""

import torch
from releases import absent_here
from torch.utils._python_dispatch import TorchDispatchMode

from flopsight.capture.count.opinfo import describe, sparse_facts
from flopsight.capture.hooks import internals
from flopsight.formulas import known, price
from flopsight.results.records import OpRecord, TensorMeta

KERNELS = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CPU")
COPIES = {"aten.clone", "aten._to_copy", "aten.where", "aten.masked_fill"}


def meta(value):
    """A tensor as a record has it; lists become tuples, other values stay."""
    if isinstance(value, torch.Tensor):
        stride = tuple(value.stride()) if value.layout is torch.strided else None
        return TensorMeta(tuple(value.shape), stride, str(value.dtype).removeprefix("torch."), value.device.type)
    if isinstance(value, list | tuple):
        return tuple(meta(item) for item in value)
    return value


def kind(func):
    """What torch's tags say about an op."""
    name = str(func._schema.name).replace("::", ".")
    if func.is_view:
        return "view"
    if name in COPIES:
        return "copy"
    if internals.is_pointwise(func):
        return "pointwise"
    return "reduction" if internals.is_reduction(func) else "other"


def bound(func, args, kwargs):
    """Arguments by schema name, defaults filled in, `out=` left out."""
    known = [argument for argument in func._schema.arguments if not argument.is_out]
    given = dict(zip((argument.name for argument in known), args, strict=False)) | kwargs
    return {a.name: meta(given[a.name] if a.name in given else a.default_value) for a in known}


def record(func, args=(), kwargs=None, output=(), **facts):
    """One call of an op as a record."""
    outputs = output if isinstance(output, list | tuple) else (output,)
    metas = tuple(meta(item) for item in outputs if isinstance(item, torch.Tensor))
    name, overload = func._schema.name.replace("::", "."), func._schema.overload_name or "default"
    return OpRecord(name, overload, bound(func, args, kwargs or {}), metas, kind(func), facts)


class Recorder(TorchDispatchMode):
    """Keeps a record of every op that runs."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        sparse = any(isinstance(value, torch.Tensor) and value.layout is not torch.strided for value in args)
        facts = dict(sparse_facts(describe(func, known), args, output)) if sparse else {}
        self.records.append(record(func, args, kwargs, output, **facts))
        return output


def calls(run):
    """Records of all ops that a function runs."""
    with Recorder() as recorder:
        run()
    return recorder.records


def inside(func, *args, **kwargs):
    """Records of the ops that an op's own kernel is written in."""
    key = next(key for key in KERNELS if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))
    with Recorder() as recorder:
        func._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
    return recorder.records


def live(run, op):
    """The op itself and the live arguments of each of its calls."""
    with Keeper() as keeper:
        run()
    return [(func, args, kwargs) for func, args, kwargs in keeper.kept if str(func._schema.name) == f"aten::{op}"]


class Keeper(TorchDispatchMode):
    """Keeps every op with its arguments."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.kept.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def call(run, op):
    """The record of the only call of `op` that a function makes."""
    (found,) = [made for made in calls(run) if made.op == op]
    return found


WAITING = ("timeout", "asyncOp")
"""Arguments of collectives without a default before 2.8, and without a price."""


def handmade(op, *outputs, overload="default", facts=None, **given):
    """A record of a call that cannot run here; torch's schema must know every argument and lack none.

    Where this torch is too old or too new for the op, another release vouches for it.
    """
    namespace, name = op.split(".")
    if op in absent_here():
        metas = {name: tensor(value) if _could_be_shape(name, value) else value for name, value in given.items()}
        return OpRecord(op, overload, metas, tuple(map(tensor, outputs)), "other", facts or {})
    schema = getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema
    arguments = [argument for argument in schema.arguments if not argument.is_out]
    unknown = set(given) - {argument.name for argument in arguments}
    assert not unknown, f"{schema.name} has no arguments {unknown}"
    lacking = [a.name for a in arguments if a.name not in {*given, *WAITING} and not a.has_default_value()]
    assert not lacking, f"{schema.name} needs {lacking}"
    args = {a.name: given.get(a.name, a.default_value) for a in arguments}
    metas = {name: tensor(value) if isinstance(value, tuple) and _is_shape(value, name, arguments) else value
             for name, value in args.items()}  # fmt: skip
    return OpRecord(op, overload, metas, tuple(map(tensor, outputs)), "other", facts or {})


def _is_shape(value, name, arguments):
    (argument,) = [a for a in arguments if a.name == name]
    return str(argument.type) in {"Tensor", "Optional[Tensor]"} and not isinstance(value, TensorMeta)


LISTS = ("normalized_shape", "output_mask", "recipe", "swizzle", "window", "split_sizes")
"""What is in the names of arguments that are lists of numbers and no tensors."""


def _could_be_shape(name, value):
    """Without a schema the name says whether numbers are a tensor's sizes."""
    whole = isinstance(value, tuple) and all(isinstance(size, int) for size in value)
    return whole and not any(word in name for word in LISTS)


def tensor(shape, dtype="float32"):
    """A contiguous tensor's meta."""
    if isinstance(shape, TensorMeta):
        return shape
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return TensorMeta(tuple(shape), tuple(reversed(strides)), dtype)


def cost(made):
    """What a record costs; a failed formula fails the test with its reason."""
    priced = price(made)
    assert priced.status != "unknown", priced.why
    return priced.cost


def total(records):
    """MACs and FLOPs of many records; every one of them must be known."""
    costs = [cost(made) for made in records]
    return sum(c.macs for c in costs), sum(c.flops for c in costs)
