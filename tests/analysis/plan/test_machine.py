"""Links of a machine: a ring moves at its slowest link, and every GPU of a node brings its own card."""

from dataclasses import replace

import pytest
from analysis.plan.cases import MACHINE, SHARES

from flopsight.analysis.plan.machine import machine_of, parse_assumptions
from flopsight.errors import InputError


@pytest.mark.parametrize(
    ("ranks", "apart", "rate"),
    [
        (8, 1, 1e11),  # inside a node: half of 200 GB/s
        (4, 2, 1e11),
        (64, 1, 8e10),  # eight cards of 10 GB/s together
        (16, 4, 2e10),  # two members in each node
        (8, 8, 1e10),  # one member in each node
    ],
)
def test_a_group_moves_at_its_slowest_link(ranks, apart, rate):
    assert MACHINE.rate(ranks, apart) == rate


def test_a_collective_pays_bytes_and_hops():
    slow = replace(MACHINE, shares=replace(SHARES, latency=0.1))

    assert slow.seconds("all_gather", 1e9, 8, 8) == pytest.approx(7e9 / 1e10 + 8 * 0.1)
    assert slow.seconds("all_gather", 1e9, 1, 1) == 0


def test_published_devices_have_the_links_that_nccl_reaches():
    h100 = machine_of("h100-sxm", gpus=64, gpus_per_node=8, between_nodes=None, assume=None)
    a100 = machine_of("a100-sxm4-80", gpus=64, gpus_per_node=8, between_nodes=100, assume={"network": 1.0})

    assert (h100.inside, h100.card) == (0.8 * 450e9, 0.9 * 50e9)
    assert (a100.inside, a100.card) == (0.8 * 300e9, 12.5e9)


def test_assumptions_are_read_and_refused():
    assert parse_assumptions("attention=0.5,chunks=4") == {"attention": 0.5, "chunks": 4.0}
    with pytest.raises(InputError, match="write name=number"):
        parse_assumptions("attention")
    with pytest.raises(InputError, match=r"no assumption 'atention'.*attention"):
        machine_of("h100-sxm", gpus=8, gpus_per_node=8, between_nodes=None, assume={"atention": 1})


def test_a_device_without_links_is_refused_with_the_next_move():
    with pytest.raises(InputError, match=r"has no link between two .* say gpus_per_node=1"):
        machine_of("inf2", gpus=8, gpus_per_node=8, between_nodes=None, assume=None)
    assert machine_of("inf2", gpus=8, gpus_per_node=1, between_nodes=100, assume=None).rate(8, 1) == 0.9 * 12.5e9


def test_a_device_without_memory_is_refused_with_the_next_move():
    with pytest.raises(InputError, match=r"no memory of Apple M4 Max.*name a device that has it, like h100-sxm"):
        machine_of("apple-m4-max", gpus=1, gpus_per_node=1, between_nodes=None, assume=None)
