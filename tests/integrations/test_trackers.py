"""A profile's figures as scalars: their names, their values, and every kind of tracker that takes them."""

from dataclasses import replace

import pytest
from profiles import lenet, stack

from flopsight.errors import InputError
from flopsight.integrations.trackers import log_profile, scalars
from flopsight.results.timings import Stat


class Writer:
    """Takes scalars one at a time, as TensorBoard's writer does."""

    def __init__(self):
        self.rows = []

    def add_scalar(self, name, value, step):
        self.rows.append((name, value, step))


class Run:
    """Takes them together, as a W&B run does."""

    def __init__(self):
        self.rows = []

    def log(self, figures, step=None):
        self.rows.append((figures, step))


class Logger:
    """Takes them together under another name, as Lightning's loggers and MLflow do."""

    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((metrics, step))


def test_an_inference_has_its_work_and_its_time():
    figures = scalars(lenet())

    assert figures == {
        "flopsight/params": 61_706,
        "flopsight/macs": 426_516_480,
        "flopsight/flops": lenet().flops,
        "flopsight/samples_per_second": 1024 / 25.7e-3,
        "flopsight/forward_seconds": 25.7e-3,
    }


def test_a_training_step_has_every_phase_and_utilization():
    profile = stack()
    figures = scalars(profile)

    matrix = 2 * (profile.macs + profile.backward.macs)  # nothing is recomputed, no attention products
    assert figures["flopsight/mfu"] == pytest.approx(matrix / 0.051 / 989e12)
    assert figures["flopsight/hfu"] == figures["flopsight/mfu"]
    assert figures["flopsight/tokens_per_second"] == pytest.approx(4 * 128 / 0.051)
    assert figures["flopsight/samples_per_second"] == pytest.approx(4 / 0.051)
    assert figures["flopsight/peak_bytes"] == 2_500_000_000
    assert figures["flopsight/backward_flops"] == profile.backward.flops
    assert [figures[f"flopsight/{phase}_seconds"] for phase in ("forward", "backward", "optimizer", "step")] == [
        0.015,
        0.031,
        0.005,
        0.051,
    ]


def test_what_is_not_known_is_left_out_and_not_zero():
    figures = scalars(replace(lenet(), batch_size=None))

    assert not [name for name in figures if "per_second" in name or "mfu" in name or "peak" in name]


def test_a_tracker_of_single_scalars_gets_one_row_a_figure():
    writer = Writer()

    log_profile(lenet(), writer, step=7)

    assert writer.rows == [(name, value, 7) for name, value in scalars(lenet()).items()]


@pytest.mark.parametrize("kind", [Run, Logger])
def test_a_tracker_of_dictionaries_gets_them_all_at_once(kind):
    tracker = kind()

    log_profile(lenet(), tracker, step=7)

    assert tracker.rows == [(scalars(lenet()), 7)]


def test_the_step_is_the_profiled_one_unless_another_is_given():
    run = Run()

    log_profile(replace(lenet(), step=5), run)
    log_profile(replace(lenet(), step=5), run, step=100)

    assert [step for _, step in run.rows] == [5, 100]


def test_the_median_of_a_time_is_logged():
    profile = lenet()
    profile = replace(profile, timing=replace(profile.timing, data_wait=Stat((0.1, 0.2, 0.9))))

    assert scalars(profile)["flopsight/data_wait_seconds"] == 0.2


def test_what_is_no_tracker_is_refused_by_its_class():
    with pytest.raises(InputError, match="dict is not a tracker that we know"):
        log_profile(lenet(), {})
