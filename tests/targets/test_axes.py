"""Axes of a sweep as words: values, ranges, and what is not an axis."""

import pytest

from flopsight.errors import InputError
from flopsight.targets.axes import parse_axes


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("batch=1,8,64", (1, 8, 64)),
        ("seq=2k,8k", (2048, 8192)),
        ("batch=1:64:x2", (1, 2, 4, 8, 16, 32, 64)),
        ("batch=1:100:*10", (1, 10, 100)),
        ("seq=1k:8k:x2", (1024, 2048, 4096, 8192)),
        ("layers=2:9:2", (2, 4, 6, 8)),
        ("layers=2:6:+2,32", (2, 4, 6, 32)),
        ("width=4:4:x2", (4,)),
        ("dtype=bf16,float32", ("bfloat16", "float32")),
        ("act=gelu,[1,2]", ("gelu", [1, 2])),
    ],
)
def test_an_axis_is_a_list_of_values_or_ranges(word, values):
    assert parse_axes([word]) == {word.partition("=")[0]: values}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batch"], "'batch' is not an axis. Axes look like batch=1,8,64"),
        (["batch=1,,2"], "'batch=1,,2' is not an axis"),
        (["batch=1", "batch=2"], "The axis batch is given twice."),
        (["batch=0"], "batch must be 1 or more, not 0."),
        (["batch=1:64:half"], "'1:64:half' of batch is not a range. Ranges look like batch=1:64:x2"),
        (["batch=64:1:x2"], "'64:1:x2' of batch does not lead from 64 to 1."),
        (["batch=1:64:x1"], "'1:64:x1' of batch does not lead from 1 to 64."),
        (["seq=1:9k:1"], "'1:9k:1' of seq has more than 1,000 values."),
        ([], "A sweep needs an axis."),
    ],
)
def test_what_is_no_axis_is_answered_with_how_one_looks(words, said):
    with pytest.raises(InputError) as problem:
        parse_axes(words)

    assert said in str(problem.value)
