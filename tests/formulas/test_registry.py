"""The door to the table of formulas: what it refuses, and what a bad formula does to a profile."""

import pytest
from formulas.calls import tensor

from flopsight.errors import FormulaError
from flopsight.formulas import FORMULAS, find, formula, known, place, price, registry
from flopsight.results.costs import Cost
from flopsight.results.records import OpRecord


@pytest.fixture(autouse=True)
def table_as_it_was():
    tables = (registry.FORMULAS, registry.NO_ARITHMETIC, registry._OPS)
    before = [table.copy() for table in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)


def made(op="mylib.scale", **options):
    return OpRecord(op, args={"x": tensor((2, 3)), "factor": 2.0}, outputs=(tensor((2, 3)),), **options)


def test_a_users_formula_is_found_and_fills_in_flops_and_bytes():
    @formula("mylib.scale")
    def scale(call):
        return Cost(macs=call.output.numel)

    priced = price(made())

    assert known("mylib.scale")
    assert find(made()) is scale
    assert (priced.status, priced.cost) == ("counted", Cost(6, 12, 48))


def test_an_op_without_a_formula_is_unknown_and_says_how_to_add_one():
    priced = price(made())

    assert priced.status == "unknown"
    assert "@flopsight.formula('mylib.scale')" in priced.why
    assert not known("mylib.scale")


def test_a_formula_is_not_replaced_quietly():
    with pytest.raises(FormulaError, match=r"aten.mm already has a formula, mm\(\) at .*matmul.py:\d+.*replace=True"):
        formula("aten.mm")(lambda call: Cost())


def test_a_formula_is_replaced_on_request():
    formula("aten.mm", replace=True)(lambda call: Cost(macs=1))

    assert price(made("aten.mm")).cost.macs == 1


def test_replacing_a_free_ops_formula_makes_it_counted():
    formula("aten.cat", replace=True)(lambda call: Cost(flops=7))

    assert price(made("aten.cat")).status == "counted"


def test_an_overloads_formula_wins():
    formula("mylib.scale")(lambda call: Cost(flops=1))
    formula("mylib::scale.twice")(lambda call: Cost(flops=2))

    assert price(made()).cost.flops == 1
    assert price(made(overload="twice")).cost.flops == 2


def test_an_overloads_zero_is_an_answer():
    formula("mylib.scale.nothing")(lambda call: Cost())

    assert known("mylib.scale")
    assert price(made(overload="nothing")).status == "counted"
    assert price(made()).status == "unknown"


def test_an_op_in_place_costs_what_its_namesake_costs():
    formula("mylib.scale")(lambda call: Cost(flops=3))

    assert known("mylib.scale_")
    assert price(made("mylib.scale_")).cost.flops == 3


@pytest.mark.parametrize("names", [(), (3,), (lambda call: Cost(),)])
def test_a_formula_needs_names(names):
    with pytest.raises(FormulaError, match="Name the op as a string"):
        formula(*names)


def raises(call):
    return call.shape("weight")


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (raises, "mylib.scale was called without a tensor 'weight'"),
        (lambda call: 1 / 0, "division by zero"),
        (lambda call: Cost(flops=-1), "its flops is negative, -1"),
        (lambda call: Cost(macs=1.5), "its macs is 1.5, not a whole number"),
        (lambda call: Cost(flops=True), "its flops is True, not a whole number"),
        (lambda call: None, "it returned None, not a flopsight.Cost"),
        (lambda call: 12, "it returned 12, not a flopsight.Cost"),
    ],
)
def test_a_bad_formula_leaves_its_op_unknown_and_names_op_arguments_and_place(bad, complaint):
    formula("mylib.scale")(bad)

    priced = price(made())

    assert priced.status == "unknown"
    assert priced.cost == Cost(bytes=48)
    assert complaint in priced.why
    assert "mylib.scale(x=float32[2, 3], factor=2.0)" in priced.why
    assert place(bad) in priced.why
    assert "test_registry.py:" in priced.why


def test_every_formula_of_ours_has_a_place_and_says_what_it_is():
    for name, fn in FORMULAS.items():
        assert "flopsight/formulas/" in place(fn).replace("\\", "/"), name
        assert fn.__doc__, name
