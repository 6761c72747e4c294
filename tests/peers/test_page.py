"""docs/peers.md and the README's table are what docs/data/peers.json gives; a wrong answer is called wrong."""

import pytest
from peers import page
from peers.answers import Answers
from peers.case import is_right
from peers.cases import CASES, FORWARD, TRAINING
from peers.tools import TOOLS


def test_the_page_and_the_readme_are_what_make_peers_writes():
    found = page.stored()

    assert page.PAGE.read_text(encoding="utf-8") == page.text(found), "run `make peers ONLY=page`"
    readme = page.README.read_text(encoding="utf-8")
    assert readme == page.with_table(readme, found)


def test_a_tool_was_asked_every_case_and_its_version_is_known():
    found = page.stored()["tools"]

    assert set(found) <= set(TOOLS)
    for said in found.values():
        assert list(said["forward"]) == list(FORWARD)
        assert list(said["training"]) == list(TRAINING)
        assert said["versions"]["tool"] != "unknown"


@pytest.mark.parametrize(
    ("share", "right"), [(1, True), (1.015, True), (0.985, True), (1.03, False), (2, False), (0, False)]
)
def test_right_is_within_two_percent(share, right):
    case = CASES["Conv2d"]

    assert is_right(share * case.macs, case) is right


def said(**answers):
    """A tool that answers some cases, and the truth to all others."""
    known = {name: float(case.answers[0]) for name, case in CASES.items()} | answers
    return {
        "versions": {"tool": "1", "torch": "2", "python": "3"},
        "forward": {name: known[name] for name in FORWARD},
        "training": {name: known[name] for name in TRAINING},
        "times": {"net": {"plain_ms": 1.0, "first": 2.0, "warm": 1.5, "latency": None, "memory_mb": 3.0}},
    }


def test_a_tool_that_is_wrong_fails_or_is_silent_is_told_so():
    tool = Answers("thop", said(Conv2d=2.0 * CASES["Conv2d"].macs, Linear="TypeError: no", LSTM=0.0))

    assert (tool.right(tool.forward), tool.failed(), tool.zeros()) == (len(FORWARD) - 3, 1, 1)
    assert tool.worst() == "2 (Conv2d)"
    assert page.faults(tool) == (
        "<p><b>0, 1 cases:</b> LSTM</p><p><b>fails, 1 cases:</b> Linear</p><p><b>off, 1 cases:</b> Conv2d: 2</p>"
    )


def test_a_peer_that_is_quicker_is_named():
    us, them = said(), said()
    us["times"]["net"] |= {"warm": 2.0, "latency": 1.2}
    them["times"]["net"] |= {"latency": 1.1}

    lines = page.better({"flopsight": Answers("flopsight", us), "thop": Answers("thop", them)})

    assert lines[0] == "Quicker later calls: thop 1.50x; flopsight 2.00x."
    assert lines[1] == "A latency nearer to the true one: thop (net: 1.100, flopsight 1.200)."
