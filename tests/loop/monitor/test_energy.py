"""Energy: which joules belong to which steps, and RAPL's counters as the system shows them."""

import pytest
import torch

from flopsight.loop.monitor import energy
from flopsight.loop.monitor.energy import Counter, EnergyMeter, energy_counter
from flopsight.results.run import Interval


class Loop:
    """Numbers that a meter reads."""

    def __init__(self):
        self.joules, self.steps, self.pauses = 100.0, 0, 0

    def meter(self):
        return EnergyMeter(Counter(lambda: self.joules), lambda: self.steps, lambda: self.pauses)

    def goes_on(self, joules, steps=0, pauses=0):
        self.joules += joules
        self.steps += steps
        self.pauses += pauses


def test_energy_between_two_readings_belongs_to_the_steps_that_ended_between_them():
    loop = Loop()
    meter = loop.meter()
    loop.goes_on(30.0, steps=2)
    meter.look()
    loop.goes_on(20.0)  # a step is under way
    meter.look()
    assert meter.take() == (30.0, 2)
    assert meter.take() is None

    loop.goes_on(10.0, steps=1)
    meter.look()
    assert meter.take() == (30.0, 1)  # of the whole step


def test_a_span_with_a_validation_in_it_belongs_to_no_step():
    loop = Loop()
    meter = loop.meter()
    for joules, steps, pauses in ((30.0, 2, 0), (500.0, 0, 1), (400.0, 1, 1), (15.0, 1, 0)):
        loop.goes_on(joules, steps, pauses)
        meter.look()

    assert meter.take() == (45.0, 3)


def test_joules_of_a_token_and_a_sample_are_of_the_mean_step():
    interval = Interval(
        0, steps=4, timed=4, seconds=2.0, tokens=400, samples=8, energy=90.0, metered=3, idle_watts=20.0
    )

    found = interval.figures()

    assert found["flopsight/joules"] == 30.0
    assert found["flopsight/joules_per_token"] == pytest.approx(0.3)
    assert found["flopsight/joules_per_sample"] == pytest.approx(15.0)
    assert found["flopsight/idle_joules"] == 10.0  # 20 W for half a second


def test_without_a_counter_no_energy_is_named():
    found = Interval(0, steps=4, timed=4, seconds=2.0, tokens=400, samples=8).figures()

    assert not [name for name in found if "joules" in name]


@pytest.fixture(name="package")
def _package(tmp_path, monkeypatch):
    """Files as Linux has them below /sys/class/powercap: two packages, and a part of the first that is in its sum."""
    monkeypatch.setattr(energy, "RAPL", tmp_path)
    for name, joules in (("intel-rapl:0", 5_000_000), ("intel-rapl:1", 7_000_000), ("intel-rapl:0:0", 4_000_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text(f"{joules}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("262143328850\n")
    return lambda number, joules: (tmp_path / f"intel-rapl:{number}" / "energy_uj").write_text(f"{joules}\n")


def test_rapl_sums_the_packages_and_goes_on_when_a_counter_begins_anew(package):
    counter = energy_counter(torch.device("cpu"))
    assert counter.read() == 12.0

    package(0, 6_500_000)
    assert counter.read() == 13.5
    package(1, 1_000_000)  # it was at 7 J, and begins anew after 262,143.32885 J
    assert counter.read() == pytest.approx(6.5 + 262_143.328850 + 1.0)
    assert counter.idle_watts is None


def test_a_machine_without_counters_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(energy, "RAPL", tmp_path)

    assert energy_counter(torch.device("cpu")) is None
