"""Published parameters and MACs of well-known models, each row by its source's own convention and tolerance."""

import pytest
from published import NO_MODEL, ROWS, ROWS_WITH_A_MODEL, case_for, counted, ours

LEFT_OUT_BY_PALM = 1024 * 768 + 12 * (2304 + 3072 + 4 * 768) + 768
"""Positions, and the biases that nanoGPT does without."""
each = pytest.mark.parametrize("name", ROWS_WITH_A_MODEL)


def test_every_row_that_has_a_model_is_counted():
    assert len(ROWS_WITH_A_MODEL) + len(NO_MODEL) == len(ROWS)
    assert len(ROWS_WITH_A_MODEL) >= 40


@each
def test_parameters_are_the_published_ones(name):
    row, params = ROWS_WITH_A_MODEL[name], counted(name).params

    if "PaLM" in name:
        params -= LEFT_OUT_BY_PALM

    assert params == pytest.approx(row["params"], rel=case_for(row).params_tolerance, abs=0)


@each
def test_the_published_figure_comes_out_of_our_count(name):
    row = ROWS_WITH_A_MODEL[name]

    assert ours(name) == pytest.approx(row["value"], rel=row["tolerance"])
    assert not counted(name).coverage.unknown
