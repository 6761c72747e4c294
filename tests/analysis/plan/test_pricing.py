"""Which division of a batch is taken, held against sums that are written out here."""

from dataclasses import replace

from analysis.plan.cases import BLOCK, MACHINE, REST, WORK, case

from flopsight.analysis.plan.pricing import best_split

PARAMS = 6_000_000
LASTING = (4 + 8) * PARAMS
COPY = 2 * PARAMS
"""Weights, AdamW's state, and the bfloat16 copy of one GPU."""


def work_of(micro_batch, _checkpoint):
    """A sample keeps two million bytes; a block's backward takes little."""
    return replace(WORK, alive=2_000_000 * micro_batch, samples=micro_batch, blocks=(BLOCK,), rest=REST)


def with_room(size):
    return replace(MACHINE, ceilings=replace(MACHINE.ceilings, memory=size))


def test_one_micro_batch_fits_where_several_do_not_since_no_earlier_one_leaves_its_gradients():
    gradients = 4 * PARAMS
    machine = with_room(LASTING + COPY + gradients + 1_000_000)

    best = best_split(case(), [(1, 4), (2, 2), (4, 1)], work_of, machine)

    assert (best.micro_batch, best.accumulate, best.fits) == (4, 1, True)
    assert best.peak_bytes == LASTING + COPY + gradients + 3000, "at the end of backward, beside a block's"


def test_of_divisions_that_do_not_fit_the_nearest_is_named():
    machine = with_room(LASTING + COPY + 4 * PARAMS - 1_000_000)

    best = best_split(case(), [(1, 4), (2, 2), (4, 1)], work_of, machine)

    assert not best.fits
    assert (best.micro_batch, best.accumulate) == (4, 1)


def test_a_larger_micro_batch_is_not_counted_once_activations_alone_do_not_fit():
    counted = []

    def noted(micro_batch, checkpoint):
        counted.append(micro_batch)
        return work_of(micro_batch, checkpoint)

    best_split(case(), [(1, 8), (2, 4), (4, 2), (8, 1)], noted, with_room(LASTING + COPY + 3_000_000))

    assert counted == [1, 2]
