"""What a notebook and a prompt show of our values: short, safe, without script."""

import re
from dataclasses import replace

import pytest
from profiles import lenet, module, oddities, rooted, stack

from flopsight.analysis.compare import compare
from flopsight.results.job import Job
from flopsight.results.profile import Profile
from flopsight.results.sweep import Point, Sweep

EVIL = "</details><script>alert(1)</script>\x1b[2J"
VALUES = {
    "profile": lenet,
    "stack": stack,
    "oddities": oddities,
    "node": lambda: lenet().root,
    "comparison": lambda: compare(lenet(), stack()),
    "job": lambda: Job({0: lenet()}),
    "sweep": lambda: Sweep({"batch": (1,)}, (Point({"batch": 1}, lenet()),)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_repr_is_one_short_line(name):
    text = repr(VALUES[name]())

    assert len(text) < 400
    assert "\n" not in text


@pytest.mark.parametrize("name", VALUES)
def test_a_notebook_gets_a_line_that_opens(name):
    bundle = VALUES[name]()._repr_mimebundle_()

    assert bundle["text/plain"] == repr(VALUES[name]())
    assert bundle["text/html"].count("<details>") == bundle["text/html"].count("</details>") == 1
    assert len(bundle["text/html"]) < 30_000


def test_the_line_of_a_profile_holds_its_figures():
    # LeNet5: 61,706 parameters, 426,516,480 MACs at a batch of 1,024
    assert "61.7 k params" in repr(lenet())
    assert "427 M MACs" in repr(lenet())


def test_a_name_that_tries_to_be_markup_stays_text():
    profile = Profile(rooted(module("", EVIL, module(EVIL, EVIL, flops=3))))

    for value in (profile, profile.root, Job({0: profile}), compare(profile, replace(profile, step=1))):
        assert "<script" not in value._repr_mimebundle_()["text/html"]


def test_a_comparison_shows_what_costs_more_in_red():
    html = compare(stack(2), stack(3))._repr_mimebundle_()["text/html"]

    assert '<td class="red">+' in html
    assert '<div class="red">added' in html
    assert "green" not in html.partition("</style>")[2]


def test_a_profile_opens_on_its_heaviest_modules_with_bars():
    html = lenet()._repr_mimebundle_()["text/html"]
    first, _, opened = html.partition("<details>")

    assert "61.7 k" in first, "the headline"
    assert 1 <= first.count('class="bar"') <= 8
    shares = [float(part) for part in re.findall(r"--part:([\d.]+)%", first)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 100.5
    assert "<summary>" in opened
