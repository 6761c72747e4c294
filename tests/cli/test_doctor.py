"""`flopsight doctor` on the command line: text or JSON, exit code 0 or 1."""

import json

import pytest

from flopsight.cli import main
from flopsight.doctor import examine as examination
from flopsight.doctor.checkup import Checked, Examination

GOOD = Checked("closed forms", "matmul", True, "512", "every count")
BAD = Checked("facilities", "traces", False, "no spans", "timelines")


def doctored(monkeypatch, *checks):
    found = Examination("0.1", "2.13.0", "3.11", "cpu", "tested", checks)
    monkeypatch.setattr(examination, "examine", lambda device: found)


@pytest.mark.parametrize(("checks", "code"), [((GOOD,), 0), ((GOOD, BAD), 1)])
def test_the_exit_code_says_whether_everything_works(monkeypatch, capsys, checks, code):
    doctored(monkeypatch, *checks)

    assert main(["doctor"]) == code
    assert ("FAIL  traces" in capsys.readouterr().out) == bool(code)


def test_the_report_as_json_has_every_check(monkeypatch, capsys):
    doctored(monkeypatch, GOOD, BAD)

    assert main(["doctor", "--json"]) == 1

    told = json.loads(capsys.readouterr().out)
    assert told["fine"] is False
    assert [check["name"] for check in told["checks"]] == ["matmul", "traces"]
    assert told["standing"] == "tested"
