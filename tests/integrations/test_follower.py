"""What the callbacks share: files that cannot be written and windows that are not reached do not end a training."""

import pytest
import torch
from torch import nn

from flopsight.errors import OutputError
from flopsight.integrations.watched_training import Follower

X = torch.ones(4, 8)


def train(follower, steps):
    """Some steps of a loop, as a framework tells of them; the figures that it is given to log."""
    model = nn.Linear(8, 2, bias=False)
    follower.begin(model)
    logged = []
    for _ in range(steps):
        follower.step_begins()
        model(X).sum().backward()
        logged.append(follower.step_ends())
    follower.end()
    return [figures for figures in logged if figures]


def test_the_figures_are_logged_once_at_the_end_of_the_window():
    follower = Follower(steps=range(1, 3))

    (figures,) = train(follower, 5)

    assert figures["flopsight/macs"] == 4 * 8 * 2
    assert follower.profile.macs == 4 * 8 * 2


def test_a_file_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "taken").mkdir()

    with pytest.raises(OutputError, match="taken cannot be written"):
        Follower(steps=[1], save_to=tmp_path / "taken")


def test_a_file_that_can_no_longer_be_written_is_a_warning_and_training_goes_on(tmp_path):
    follower = Follower(steps=[1], save_to=tmp_path / "taken")
    (tmp_path / "taken").mkdir()

    with pytest.warns(UserWarning, match="taken cannot be written"):
        (figures,) = train(follower, 5)

    assert figures["flopsight/macs"] == 4 * 8 * 2


def test_a_window_that_training_did_not_reach_is_a_warning():
    follower = Follower(steps=[9])

    with pytest.warns(UserWarning, match="Training ended after 3 steps, before step 9"):
        train(follower, 3)

    assert follower.profile is None
