"""What a notebook and a prompt show of our values: short, safe, without script."""

import re
from dataclasses import replace

import pytest
from profiles import lenet, module, oddities, rooted, stack

from flopsight.analysis.compare import compare
from flopsight.analysis.findings.finding import Finding, Findings
from flopsight.results.generation import Generation, Step
from flopsight.results.job import Job
from flopsight.results.plan import Plan, PlanOption
from flopsight.results.profile import Profile
from flopsight.results.run import Interval, Run
from flopsight.results.sweep import Point, Sweep
from flopsight.results.timings import Stat, Timing

EVIL = "</details><script>alert(1)</script>\x1b[2J"
VALUES = {
    "profile": lenet,
    "stack": stack,
    "oddities": oddities,
    "node": lambda: lenet().root,
    "comparison": lambda: compare(lenet(), stack()),
    "job": lambda: Job({0: lenet()}),
    "sweep": lambda: Sweep({"batch": (1,)}, (Point({"batch": 1}, lenet()),)),
    "run": lambda: Run("Net", intervals=(Interval(0, steps=4, timed=4, seconds=2.0),)),
    "plan": lambda: Plan("zoo:net", "H100", 8, (OPTION,)),
    "generation": lambda: Generation(lenet(), (Step(0, lenet()),), batch=1, prompt=8, new_tokens=1, seen=8),
    "findings": lambda: Findings((FINDING,)),
    "finding": lambda: FINDING,
    "no findings": Findings,
}
OPTION = PlanOption(
    {"fsdp": 8}, 1, 1, "none", {"compute": 0.5}, {"parameters": 10}, room=100, gpus=8, samples=8, tokens=None,
    model_flops=10**12, peak_flops=1e12,
)  # fmt: skip
FINDING = Finding("fusion", "Chains of ops fuse", ("a",), "3 ops", "compile it", seconds=0.1, share=0.2)


@pytest.mark.parametrize("name", VALUES)
def test_a_repr_is_one_short_line(name):
    text = repr(VALUES[name]())

    assert len(text) < 400
    assert "\n" not in text


@pytest.mark.parametrize("name", VALUES)
def test_a_notebook_gets_a_line_that_opens(name):
    bundle = VALUES[name]()._repr_mimebundle_()

    assert bundle["text/plain"] == repr(VALUES[name]())
    assert len(re.findall("<details(?: open)?>", bundle["text/html"])) == bundle["text/html"].count("</details>") == 1
    assert len(bundle["text/html"]) < 30_000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("run", "500 ms"),  # 4 steps in 2 s
        ("plan", "fsdp=8"),
        ("generation", "1 x 8"),
        ("findings", "at most 100 ms (20.0%) of a step"),
        ("no findings", "Nothing found to change."),
    ],
)
def test_what_a_value_is_about_is_in_sight_when_the_cell_has_run(name, said):
    html = VALUES[name]()._repr_mimebundle_()["text/html"]

    assert said in html
    assert "<details open>" in html


def test_no_rule_of_ours_reaches_another_cell():
    for make in VALUES.values():
        style = re.search("<style>(.*)</style>", make()._repr_mimebundle_()["text/html"], re.DOTALL)[1]
        depth, outside = 0, ""
        for sign in style:
            depth += (sign == "{") - (sign == "}")
            outside += sign if not depth and sign != "}" else ""
        assert outside.strip() == ".flopsight"
        assert depth == 0


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


def test_the_rows_of_a_training_step_are_shares_of_the_whole_step():
    # a step of 10 s: a layer with 2 s forward and 4 s backward, another with 1 s and 1 s, the optimizer with 2 s
    layers = [
        replace(module(name, "Linear"), latency=forward, backward_latency=backward)
        for name, forward, backward in (("a", 2.0, 4.0), ("b", 1.0, 1.0))
    ]
    root = replace(module("", "Net", *layers), latency=3.0, backward_latency=5.0)
    whole = {"forward": 3.0, "backward": 5.0, "optimizer": 2.0, "step": 10.0}
    timing = Timing(**{name: Stat((seconds,)) for name, seconds in whole.items()})
    html = Profile(rooted(root), timing=timing, trained=True)._repr_mimebundle_()["text/html"]

    rows = re.findall(r"<td>([^<]*)</td><td>([\d.]+%)</td><td class=\"bar\"", html.partition("<details>")[0])

    assert rows == [("6.00 s", "60.0%"), ("2.00 s", "20.0%"), ("2.00 s", "20.0%")]
    assert "<th>time of the step</th>" in html
