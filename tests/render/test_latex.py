"""Tables for papers: LaTeX of one profile, several profiles side by side, pictures."""

import pytest
from profiles import lenet, module, oddities, rooted, stack

from flopsight.errors import InputError
from flopsight.render.latex import escaped, grid, render
from flopsight.render.page import Column, Grid
from flopsight.render.side_by_side import render as side_by_side
from flopsight.results.profile import Profile


@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_every_line_of_a_table_has_as_many_cells_as_columns(make):
    text = render(make())

    package, begin, *_ = text.splitlines()
    assert package == r"% \usepackage{booktabs}"
    shape = begin.removeprefix(r"\begin{tabular}{").removesuffix("}")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) > 2
    assert {line.replace(r"\&", "").count("&") for line in rows} == {len(shape) - 1}


def test_no_sign_of_a_name_is_a_command():
    assert escaped(r"a_b & 50% $x$ #1 {y} ~ ^ \end") == (
        r"a\_b \& 50\% \$x\$ \#1 \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}end"
    )


def test_several_models_stand_side_by_side():
    text = side_by_side([lenet(), Profile(rooted(module("", "Tiny", flops=8)))], ["a", "b"], "markdown")

    head, _, first, second = text.splitlines()
    assert head.startswith("| profile | model | params | MACs | FLOPs |")
    # LeNet5 has 61,706 parameters; the other model has neither parameters nor a time
    assert "| 61.7 k |" in first
    assert second.startswith(r"| b | Tiny | 0 | 0 | 8 |")


def test_side_by_side_is_latex_too():
    assert side_by_side([lenet(), stack()], ["one_model", "other"], "latex").count(r"one\_model") == 1


def test_a_format_that_side_by_side_lacks_names_those_it_has():
    with pytest.raises(InputError, match="Formats: table, markdown, latex"):
        side_by_side([lenet()], ["a"], "deepspeed")


def test_units_stand_in_the_head_and_numbers_share_them():
    cells = ("8.18 G", "118 M", "0", "?", "1.2 M")

    text = grid(
        Grid(
            (
                Column("model", tuple("abcde"), right=False),
                Column("MACs", cells),
                Column("time", ("1.50 s", "25.7 ms", "90.1 us", "", "0 s")),
            )
        )
    )

    assert [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if "&" in line] == [
        ["model", "MACs (G)", "time (s)"],
        ["a", "8.18", "1.50"],
        ["b", "0.12", "0.03"],
        ["c", "0", r"\textless{}0.01"],
        ["d", "?", ""],
        ["e", r"\textless{}0.01", "0"],
    ]


def test_columns_are_chosen_by_the_names_of_figures():
    head = next(line for line in render(lenet(), columns="flops, params,share").splitlines() if "&" in line)

    assert head == r"module & FLOPs (M) & params (k) & \% & \% \\"


def test_a_column_that_is_not_there_names_those_that_are():
    with pytest.raises(InputError, match=r"no column 'flop' here. Did you mean 'flops'\? Columns: params, macs, flops"):
        render(lenet(), columns="flop")
