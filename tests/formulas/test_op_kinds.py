"""The book of op kinds: every op stands in one list, and both capture and formulas go by it."""

import torch

from flopsight.capture.count.opinfo import op_info
from flopsight.formulas import find
from flopsight.results.op_kinds import (
    FILLED,
    FILLED_TOGETHER,
    MOVED,
    NO_WORK,
    POINTWISE,
    POINTWISE_WITH_NOISE,
    listed_kind,
)
from flopsight.results.records import OpRecord

LISTS = (NO_WORK, MOVED, FILLED, FILLED_TOGETHER, POINTWISE, POINTWISE_WITH_NOISE)


def test_no_op_stands_in_two_lists():
    names = [name for names in LISTS for name in names]

    assert len(names) == len(set(names))


def test_every_listed_op_has_a_formula():
    assert [name for names in LISTS for name in names if find(OpRecord(name)) is None] == []


def test_an_op_in_place_is_of_the_kind_of_its_namesake():
    aten = torch.ops.aten

    assert {op_info(op).kind for op in (aten.gelu.default, aten.gelu_.default)} == {"pointwise"}
    assert {op_info(op).kind for op in (aten.fill.Scalar, aten.fill_.Scalar, aten.zero_.default)} == {"copy"}
    assert {op_info(op).kind for op in (aten.tril.default, aten.tril_.default)} == {"copy"}


def test_the_book_says_nothing_about_ops_that_torch_tags_right():
    assert listed_kind("aten.exp") is None
    assert listed_kind("aten.mm") is None
