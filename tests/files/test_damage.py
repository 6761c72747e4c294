"""A damaged or hostile file is one sentence, or it loads and every view draws it: never a traceback."""

import json
import random
from dataclasses import replace

import pytest
from profiles import lenet, oddities, stack

from flopsight.analysis.compare import compare
from flopsight.cli.ops import used_lines
from flopsight.errors import FlopsightError, ProfileFileError
from flopsight.files import store
from flopsight.render.formats import PRINTED, find
from flopsight.results.comm import CommRow
from flopsight.results.data_flow import DataFlow
from flopsight.results.job import Job
from flopsight.results.memory_curve import MemoryCurve
from flopsight.results.records import Span
from flopsight.results.world import World

MUTATIONS, PAGES = 300, 4
NASTY = [
    -1, 0, 1, 2.5, -0.5, 5e-324, 1e308, 10**29, 10**400, float("nan"), float("inf"), True, False, None, "", "x", "-", "forward",
    "\x1b[31m", "\ud800", "a\nb", [], {}, [[]], [None], [0], [-1], ["x"], {"a": 1}, {"": None}, [[[[[[]]]]]],
]  # fmt: skip
SPANS = (
    Span("Net", "module", 0, 900, 1, ""),
    Span("aten.mm", "op", 5, 80, 1, "", ((4, 8),)),
    Span("gemm", "kernel", 9, 99, 7),
)


def pages():
    """What three unlike profiles and a job look like as JSON, all optional parts filled."""
    curve = MemoryCurve((0, 3), {"parameters": (5, 5), "other": (0, 7)}, ("", "0"), ("", "forward"))
    flow = DataFlow(("<input>", "0", ""), (0, 1, 0), ("", "", "aten.add"), (0, 1), (1, 2), (64, 128))
    whole = replace(
        stack(2, width=8),
        timeline=SPANS,
        at_peak={"parameters": 5, "other": 7},
        memory_curve=curve,
        data_flow=flow,
        step=3,
    )
    comm = (CommRow("all_reduce", "backward", 2, 4096, 4096, 2, "dp", holds=("0.weight",), seconds=0.5),)
    ranks = {
        rank: replace(
            lenet(4),
            root=replace(lenet(4).root, comm=comm),
            world=World(size=2, rank=rank, data_parallel=2, mesh={"dp": 2}),
        )
        for rank in range(2)
    }
    job = Job(ranks, 3, {2: "it raised"})
    return [json.loads(store.dumps(profiled)) for profiled in (whole, lenet(), oddities(), job)]


def places(value, found=None):
    """Every container in a page with one of its keys."""
    found = [] if found is None else found
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((value, key))
        places(item, found)
    return found


def mutate(page, rng):
    """One to three values replaced, removed, doubled or swapped."""
    for _ in range(rng.randint(1, 3)):
        inside = page.get("profile") or page.get("job")
        holder, key = rng.choice(places(inside) if inside and rng.random() < 0.97 else places(page))
        match rng.randint(0, 5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(holder[key])
            case 2:
                other, place = rng.choice(places(page))
                holder[key] = json.loads(json.dumps(other[place]))
            case _:
                holder[key] = rng.choice(NASTY)
    return page


def draw_everything(profile):
    if isinstance(profile, Job):
        find("html").text(profile.model, {})
        store.dumps(profile)
        for name in ("tree", "deepspeed", "csv", "json"):
            profile.render(name)
        profile = profile.model
    for name in PRINTED:
        if name != "trace" or profile.timeline:
            profile.render(name)
    profile.render("tree", width=40, depth=1)
    find("html").text(profile, {}).encode()
    compare(lenet(), profile).render()
    compare(profile, profile).render("markdown")
    used_lines(profile)
    for node in profile.walk():
        repr(node)
    str(profile)
    store.dumps(profile)


@pytest.mark.parametrize("part", range(PAGES))
def test_a_mutated_file_draws_in_every_view_or_is_one_sentence(part):
    rng = random.Random(part)
    base = json.dumps(pages()[part])
    loaded = 0
    for number in range(MUTATIONS // PAGES):
        text = json.dumps(mutate(json.loads(base), rng))
        try:
            profile = store.loads(text, "p.json")
        except FlopsightError as problem:
            assert "\n" not in str(problem)
            assert str(problem).startswith("p.json ")
            continue
        loaded += 1
        try:
            draw_everything(profile)
        except FlopsightError:
            continue
        except Exception as problem:
            raise AssertionError(f"mutation {number} of page {part} loads and cannot be drawn") from problem
    assert 0 < loaded < MUTATIONS // PAGES, "some load, some do not"


@pytest.mark.parametrize(
    ("value", "said"),
    [(-1, "is -1, not a whole number"), (2.5, "is 2.5, not"), (True, "is True, not"), ("3", "is '3', not"), (10**400, "is too large, not"), (None, "is None, not")],
)  # fmt: skip
def test_a_count_that_is_no_count_is_named_with_its_place(value, said):
    page = json.loads(store.dumps(lenet()))
    page["profile"]["root"]["modules"][1]["calls"] = value

    with pytest.raises(ProfileFileError, match=rf"profile\.root\.modules\[1\]\.calls {said}"):
        store.loads(json.dumps(page))


@pytest.mark.parametrize("samples", [[], [-1.0], ["x"], [1e400], {"0": 1}])
def test_a_time_that_is_no_time_is_refused(samples):
    page = json.loads(store.dumps(lenet()))
    page["profile"]["timing"]["forward"]["samples"] = samples

    with pytest.raises(ProfileFileError, match="profile.timing.forward.samples|not JSON"):
        store.loads(json.dumps(page))


@pytest.mark.parametrize("children", [-1, 10**6, "2", 1])
def test_modules_that_make_no_tree_are_refused(children):
    page = json.loads(store.dumps(lenet()))
    page["profile"]["root"]["modules"][0]["children"] = children

    with pytest.raises(ProfileFileError, match=r"profile\.root.* modules"):
        store.loads(json.dumps(page))


@pytest.mark.parametrize("place", ["job", "rank"])
def test_a_job_of_more_ranks_than_any_job_has_is_refused_before_its_ranks_are_listed(place):
    page = pages()[3]
    holder = page["job"] if place == "job" else page["job"]["ranks"][0]["profile"]["world"]
    holder["size"] = 10**12

    with pytest.raises(ProfileFileError, match="size is 1000000000000, not a whole number from 0 to 1000000"):
        store.loads(json.dumps(page), "job.json")


def test_every_prefix_of_a_file_is_one_sentence():
    text = store.dumps(oddities())
    for end in range(0, len(text), 97):
        with pytest.raises(ProfileFileError):
            store.loads(text[:end])
