"""The table against torch itself: every name exists, and hardly an op is without an answer."""

import pytest
import torch
import torch.distributed
import torch.distributed.fsdp  # registers its ops
from formulas.calls import meta
from releases import absent_here, load_varlen

from flopsight.capture.count.opinfo import kind_of
from flopsight.formulas import FORMULAS, find, known
from flopsight.results.records import OpRecord, TensorMeta

load_varlen()

EXPANDED = {
    "_transformer_encoder_layer_fwd",
    "_triton_multi_head_attention",
    "_triton_scaled_dot_attention",
}
"""Ops whose kernels are written in other ops, or are out of use; a formula would hide what runs inside."""


def all_ops():
    return [name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names()]


def test_every_name_is_an_op_of_torch():
    """In place only is enough; higher-order ops have no schema, and bitsandbytes is another package."""
    there = {".".join(name.split(".")[:2]) for name in all_ops()}
    missing = {
        name
        for name in FORMULAS
        if not name.startswith(("higher_order.", "bitsandbytes."))
        and ".".join(name.split(".")[:2]) not in there
        and f"{name}_" not in there
    }

    assert missing <= absent_here()


def test_every_overload_named_is_one_of_torch():
    there = set(all_ops())
    for name in FORMULAS:
        if name.count(".") == 2 and not name.endswith(".default"):
            assert name in there, name


def test_every_op_with_which_ranks_exchange_has_a_formula():
    names = {
        ".".join(name.split(".")[:2]) for name in all_ops() if name.startswith(("c10d.", "_c10d_functional", "fsdp."))
    }

    assert len(names) > 30
    assert {name for name in names if not known(name)} == set()


def answered(name):
    """Whether an op has a formula, a kind that says its cost, or parts of its own into which it falls."""
    op, _, overload = name.partition("::")[2].partition(".")
    func = getattr(getattr(torch.ops.aten, op), overload or "default")
    return (
        known(f"aten.{op}")
        or kind_of(func, f"aten.{op}") not in ("matrix", "other")
        or torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    )


def ops_without_an_answer():
    """Names of aten ops that would be shown as unknown."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    left = {name.partition("::")[2].split(".")[0] for name in names if not answered(name)}
    return {name for name in left if not name.startswith(("_test", "_foobar"))}


def test_no_aten_op_is_without_an_answer():
    assert ops_without_an_answer() <= EXPANDED


def test_core_ops_are_all_answered():
    core = [
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and torch.Tag.core
        in getattr(getattr(torch.ops.aten, name[6:].split(".")[0]), (name[6:].split(".") + ["default"])[1]).tags
    ]

    assert len(core) > 150
    assert all(map(answered, core))


def plausible(argument, rank):
    """A value that an argument may have; tensors are cubes of the given rank."""
    kind, cube = str(argument.type), TensorMeta((4,) * rank)
    if "Tensor" in kind:
        return ((cube,),) if "List[List" in kind else (cube, cube) if "List" in kind else cube
    if argument.has_default_value() and argument.default_value is not None:
        return meta(argument.default_value)
    values = {"bool": True, "int": 1, "SymInt": 1, "float": 0.5, "number": 0.5, "str": "none"}
    value = next((value for word, value in values.items() if word in kind), None)
    return (value,) * (argument.N or 2) if "List" in kind else value


def calls_of(name):
    """Handmade calls of an op on tensors of several ranks."""
    namespace, op, overload = (*name.split("."), "default")[:3]
    schema = getattr(getattr(getattr(torch.ops, namespace), op), overload)._schema
    facts = {"nnz": 3, "products": 3, "weight_shape": (4, 4, 4), "lengths_q": (2, 2), "lengths_k": (2, 2)}
    for rank in range(1, 6):
        args = {a.name: plausible(a, rank) for a in schema.arguments if not a.is_out}
        outputs = (TensorMeta((4,) * rank),) * max(1, len(schema.returns))
        yield OpRecord(f"{namespace}.{op}", overload, args, outputs, "other", facts)


def test_no_formula_asks_for_an_argument_that_its_op_lacks():
    """Ranks that do not fit may fail with ValueError; a name that does not exist fails with KeyError on every rank."""
    others = absent_here()  # also those that an older torch has with other arguments
    asked = [name for name in all_ops() if known(op := ".".join(name.split(".")[:2])) and op not in others]
    assert len(asked) > 2000
    for name in asked:
        for made in calls_of(name):
            fn = find(made)
            try:
                fn and fn(made)
            except (ValueError, IndexError):
                continue


@pytest.mark.parametrize("op", ["mm", "addmm_", "cat", "clone", "convolution", "_fused_adam_", "item", "copy_"])
def test_capture_is_told_what_is_known(op):
    assert known(f"aten.{op}")


def test_every_dtype_of_torch_has_a_size():
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}

    assert {str(d): d.itemsize for d in dtypes} == {
        str(d): TensorMeta((1,), dtype=str(d).removeprefix("torch.")).nbytes for d in dtypes
    }


def test_a_dtype_newer_than_the_table_is_as_large_as_its_name_says():
    names = ("float6_e2m3fn", "float8_e9m9", "float24", "bcomplex64", "nameless")

    assert [TensorMeta((1,), dtype=name).nbytes for name in names] == [1, 1, 3, 8, 1]
    assert TensorMeta((1,), dtype="bcomplex32").is_complex


def test_nothing_is_known_by_accident():
    assert not known("aten.no_such_op")
    assert not known("mylib.mm")
    assert not known("aten._transformer_encoder_layer_fwd")
