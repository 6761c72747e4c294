"""The doctor finds everything fine where it is, and names what is not and what that touches where it is not."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flopsight.capture.hooks import release
from flopsight.doctor import closed_forms, facilities, private_apis
from flopsight.doctor.checkup import Checked, Examination, lines, verdict
from flopsight.doctor.examine import examine

CPU = torch.device("cpu")


def report(*checks, standing="tested"):
    return Examination("0.1", "2.13.0", "3.11", "cpu", standing, checks)


def test_everything_is_fine_here():
    found = examine()

    assert found.failed == ()
    assert found.fine
    assert {check.group for check in found.checks} == {"private torch APIs", "closed forms", "facilities"}
    assert len(closed_forms.CASES) >= 9


def test_a_missing_private_name_is_said_with_the_figures_that_need_it(monkeypatch):
    monkeypatch.setitem(private_apis.PRIVATE_NAMES, "torch._C._no_such_thing", "peak memory")
    monkeypatch.setitem(private_apis.PRIVATE_NAMES, "torch._no_such_module.thing", "times")

    found = list(private_apis.private_apis())

    assert [(check.name, check.fine, check.touches) for check in found] == [
        ("torch._C._no_such_thing", False, "peak memory"),
        ("torch._no_such_module.thing", False, "times"),
    ]


def test_a_wrong_count_and_one_that_raises_are_failures_and_the_others_go_on(monkeypatch):
    def raises(device):
        raise KeyError("no such op")

    identity = nn.Identity
    monkeypatch.setattr(
        closed_forms,
        "CASES",
        {
            "wrong": closed_forms.Case(identity, (1,), lambda _: (7, 1000), "MACs, bytes", (8, 1000), "a"),
            "raises": closed_forms.Case(identity, (1,), raises, "MACs", (1,), "b"),
            "right": closed_forms.Case(identity, (1,), lambda _: (1,), "MACs", (1,), "c"),
        },
    )

    found = list(closed_forms.closed_forms(CPU))

    assert [(check.name, check.fine) for check in found] == [("wrong", False), ("raises", False), ("right", True)]
    assert found[0].found == "7 MACs, 1,000 bytes instead of 8, 1,000"
    assert "no such op" in found[1].found
    assert found[2].found == "1 MACs"


def test_a_facility_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(facilities, "FACILITIES", {"marks": (lambda _: (False, "no time for 0"), "times of modules")})

    (found,) = facilities.facilities(CPU)

    assert (found.fine, found.found, found.touches) == (False, "no time for 0", "times of modules")


def test_a_torch_newer_than_every_tested_one_is_unproven_and_not_refused(monkeypatch):
    monkeypatch.setattr(release, "NEWEST", (2, 0))

    found = examine()

    assert (found.standing, found.fine) == ("unproven", True)
    assert "unproven" in lines(found)[1]


def test_the_verdict_counts_failures_and_names_what_they_touch():
    bad = [Checked("facilities", name, False, "no", touches) for name, touches in (("a", "times"), ("b", "times"))]
    good = Checked("facilities", "c", True, "yes", "memory")

    assert verdict(report(good)) == "Everything works here."
    assert verdict(report(*bad, good)) == "2 of 3 checks failed. Do not rely on: times."
    assert "        this touches: times" in lines(report(*bad, good))


def test_a_torch_that_is_missing_or_too_old_is_not_fine():
    assert not report(standing="missing").fine
    assert not report(standing="too old").fine


@pytest.mark.parametrize(
    ("torch_there", "standing", "said"),
    [(None, "missing", "pip install torch"), (SimpleNamespace(), "broken", "raises AttributeError")],
)
def test_a_torch_that_cannot_be_imported_ends_the_examination_with_a_reason(monkeypatch, torch_there, standing, said):
    monkeypatch.setitem(sys.modules, "torch", torch_there)

    found = examine()

    assert (found.standing, found.torch, found.fine) == (standing, "none", False)
    assert said in found.checks[0].found
    assert (
        lines(found)[-1] == "Without a torch that works, flopsight opens saved profiles only: `show`, `diff`, `check`."
    )


@pytest.mark.parametrize("device", ["toaster", "meta"])
def test_a_device_on_which_nothing_runs_is_one_failure_and_not_one_a_check(device):
    found = examine(device)

    assert [check.name for check in found.failed] == [device]
    assert found.failed[0].touches == f"every figure on {device}"


def test_a_name_that_only_newer_releases_have_is_not_missed_on_older_ones(monkeypatch):
    monkeypatch.setitem(private_apis.PRIVATE_NAMES, "torch._C._no_such_thing", "peak memory")
    monkeypatch.setitem(private_apis.SINCE, "torch._C._no_such_thing", (99, 0))

    assert [check.fine for check in private_apis.private_apis()] == [True]
