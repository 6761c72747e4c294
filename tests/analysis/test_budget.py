"""A budget: what is over it is said in a sentence."""

import pytest
from profiles import lenet, stack

from flopsight.analysis.budget import check
from flopsight.errors import InputError


def test_a_profile_within_its_budget_breaks_nothing():
    assert check(lenet(), {"params": "62k", "flops": "873M", "macs": 426_516_480, "latency": "30ms"}) == []


def test_a_figure_over_its_budget_is_named_with_both_numbers():
    assert check(lenet(), {"params": "61.7k", "latency": "20 ms"}) == [
        "params is 61.7 k (61,706), over the budget of 61.7 k.",
        "latency is 25.7 ms, over the budget of 20.0 ms.",
    ]


def test_bytes_take_binary_suffixes():
    saved = stack(1, width=8).activation_bytes

    assert saved == 4 * (512 * (5 * 8 + 32) + 4 * 8)
    assert check(stack(1, width=8), {"activation_bytes": "145KiB"}) == []
    assert len(check(stack(1, width=8), {"activation_bytes": "144KiB"})) == 1


def test_throughput_is_a_least_not_a_most():
    assert check(lenet(), {"throughput": 30_000}) == []
    assert check(lenet(), {"throughput": "50k"}) == ["throughput is 39.8 k, below the 50.0 k asked for."]


def test_a_budget_for_what_was_not_measured_is_not_kept():
    assert check(lenet(), {"peak_bytes": "1GB"}) == [
        "peak_bytes is not in the profile, so its budget of 1.00 GB cannot be checked."
    ]


def test_an_unknown_figure_names_the_nearest():
    with pytest.raises(InputError, match=r"no figure 'param'. Did you mean 'params'\?"):
        check(lenet(), {"param": "26M"})


def test_a_budget_that_is_no_number_says_how_to_write_it():
    with pytest.raises(InputError, match="Write it like 26M"):
        check(lenet(), {"params": "a few"})
