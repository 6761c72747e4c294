"""Which torch is refused, and which is merely unproven."""

import pytest
import torch

from flopsight.capture.hooks.release import RELEASES, parse, refuse_old, unproven
from flopsight.errors import TorchError


def test_a_version_is_its_major_and_minor_number():
    assert [parse(text) for text in ("2.13.0+cpu", "2.9.1", "3.0.0a0+git12ab")] == [(2, 13), (2, 9), (3, 0)]


def test_a_torch_that_is_too_old_is_refused_in_one_sentence_that_names_those_that_work():
    with pytest.raises(TorchError, match=r"torch 2\.5\.1 is too old .* torch 2\.6 and newer, .* up to 2\.15"):
        refuse_old("2.5.1")


@pytest.mark.parametrize("version", [*RELEASES, "2.16.0", torch.__version__])
def test_every_listed_release_and_every_newer_one_is_taken(version):
    refuse_old(version)


def test_only_a_release_newer_than_the_list_is_unproven():
    assert unproven("2.16.0")
    assert not any(map(unproven, RELEASES))


def test_the_releases_stand_oldest_first():
    assert sorted(RELEASES, key=parse) == list(RELEASES)
