"""Which optimizer step ends a step of the loop."""

import pytest

from flopsight.loop.step_boundaries import Boundary, OptimizerCycle


class Optimizer:
    pass


def boundaries(sequence):
    """(letter of the optimizer, what its step is, steps over) for a sequence of optimizers."""
    known = {name: Optimizer() for name in sequence}
    cycle = OptimizerCycle()
    return [(name, cycle.stepped(known[name]).name, cycle.steps) for name in sequence]


def ends(sequence):
    return [i for i, (_, what, _) in enumerate(boundaries(sequence)) if what != Boundary.WITHIN.name]


def test_one_optimizer_ends_a_step_with_each_of_its_own():
    assert [steps for _, _, steps in boundaries("aaaa")] == [1, 2, 3, 4]


def test_two_optimizers_in_turn_end_a_step_with_the_second():
    assert boundaries("dgdgdg") == [
        ("d", "ENDED", 1),
        ("g", "MOVED", 1),
        ("d", "WITHIN", 1),
        ("g", "ENDED", 2),
        ("d", "WITHIN", 2),
        ("g", "ENDED", 3),
    ]


def test_any_number_of_optimizers_end_a_step_with_the_last_of_them():
    assert [steps for _, _, steps in boundaries("abcdabcdabcd")][-1] == 3


def test_one_that_repeats_before_others_come_keeps_the_beat():
    """A critic that steps five times for every step of the generator, as in the loop `for i, x in enumerate(data)`."""
    assert boundaries("ccccc" + "g" + "ccccc")[-1] == ("c", "ENDED", 10)


def test_an_optimizer_that_is_replaced_hands_over():
    steps = boundaries("aaa" + "bbb")

    assert steps[2] == ("a", "ENDED", 3)
    assert steps[-1] == ("b", "ENDED", 5)


def test_optimizers_that_are_gone_are_not_kept_alive_nor_mistaken_for_others_of_the_same_step():
    cycle = OptimizerCycle()

    ended = [cycle.stepped(Optimizer()) for _ in range(3)]  # each is gone before the next comes, maybe in its place

    assert ended == [Boundary.ENDED] * 3
    assert cycle.steps == 3


def test_one_that_is_gone_hands_over_at_once():
    cycle = OptimizerCycle()

    for _ in range(3):
        local = Optimizer()
        ended = [cycle.stepped(local) for _ in range(2)]
        del local
        assert ended == [Boundary.ENDED] * 2
    assert cycle.steps == 6


def test_two_in_turn_after_one_that_is_gone_end_a_step_with_the_second():
    cycle = OptimizerCycle()
    cycle.stepped(Optimizer())
    critic, generator = Optimizer(), Optimizer()

    ended = [cycle.stepped(one) for one in (critic, generator) * 3]

    assert ended[2:] == [Boundary.WITHIN, Boundary.ENDED] * 2


@pytest.mark.parametrize("sequence", ["a" * 9, "dg" * 5, "abc" * 4])
def test_from_the_second_step_on_every_cycle_has_one_end(sequence):
    length = len(set(sequence))
    later = [i for i in ends(sequence) if i >= length]

    assert later == list(range(2 * length - 1, len(sequence), length))
