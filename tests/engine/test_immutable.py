"""A profile is a value: nothing that is done with it, or with another one made of it, changes its figures."""

import copy
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace

import pytest
import torch
from profiles import module, rooted
from torch import nn

import flopsight
from flopsight.files.store import load, save
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow
from flopsight.results.job import Job
from flopsight.results.node import Node
from flopsight.results.profile import Environment, Profile
from flopsight.results.read_only import ReadOnly
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import World

MOVED = 4 * 10**7
SLOW, QUICK = Ceilings("slow", bandwidth=10**10), Ceilings("quick", bandwidth=4 * 10**10)
"""The bytes take 4 ms on the one and 1 ms on the other."""


def tree():
    add = module("a", "Add", moved=MOVED, ops=(OpRow("aten.add", "forward", 1, Cost(bytes=MOVED)),))
    return rooted(module("", "Model", module("block", "Block", add)))


def limits(profile):
    """The limit of every module, by each way to reach it."""
    by_name = profile["block.a"]
    (block,) = profile.root.children
    (below,) = block.children
    walked = [node for node in profile.walk() if node.path == "block.a"]
    return {round(node.limit() * 1e3, 9) for node in (by_name, below, *walked, profile.root, profile)}


def test_another_profile_of_the_tree_with_other_ceilings_leaves_the_first_as_it_was():
    first = Profile(tree(), ceilings=SLOW)
    kept = first["block.a"]
    second = replace(first, ceilings=QUICK)
    third = replace(second, ceilings=SLOW)

    assert (limits(first), limits(second), limits(third)) == ({4.0}, {1.0}, {4.0})
    assert kept.limit() == pytest.approx(4e-3)
    assert first.root == second.root
    assert first != second
    assert first == third


def test_one_tree_in_two_profiles_has_the_limits_of_each():
    given = tree()
    one, two = Profile(given, ceilings=SLOW), Profile(given, ceilings=QUICK)
    around = Profile(Node("", "", "Outer", children=(one.root,)), ceilings=QUICK)

    assert (limits(one), limits(two)) == ({4.0}, {1.0})
    assert around.root.children[0].limit() == pytest.approx(1e-3)
    assert limits(one) == {4.0}


def test_a_profile_with_equal_conditions_shares_the_tree_and_copies_nothing():
    first = Profile(tree(), ceilings=SLOW)
    assert replace(first, batch_size=4).root is first.root
    assert replace(first, ceilings=replace(SLOW)).root is first.root


def test_what_binds_follows_the_times_of_the_own_profile():
    """Kernels of 1 ms in a forward of 10 ms: the host binds. In one of 1.2 ms it does not."""

    def timed(seconds):
        return Timing(forward=Stat((seconds,)), busy=0.001)

    waiting = Profile(tree(), ceilings=SLOW, timing=timed(0.010))
    busy = replace(waiting, timing=timed(0.0012))

    assert (waiting.bound(), waiting.root.bound()) == ("launch", "launch")
    assert (busy.bound(), busy.root.bound()) == ("memory", "memory")
    assert waiting.root.bound() == "launch"


def test_a_node_by_itself_has_no_device_but_may_be_given_one():
    node = tree()
    assert node.limit() is None
    assert node.bound() is None
    assert node.limit("h100-sxm") == pytest.approx(MOVED / 3.35e12)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)), replace])
def test_copies_equal_the_profile_and_answer_as_it_does(again):
    profile = Profile(tree(), ceilings=SLOW, world=World(size=2, mesh={"dp": 2}), at_peak={"activations": 8})
    twin = again(profile)
    assert twin == profile
    assert limits(twin) == {4.0}
    assert twin.world.mesh == {"dp": 2}
    with pytest.raises(TypeError):
        twin.world.mesh["dp"] = 3


def test_a_pickled_node_takes_no_profile_along():
    profile = Profile(tree(), ceilings=SLOW, environment=Environment(made="a long time ago"))
    packed = pickle.dumps(profile["block.a"])
    assert b"a long time ago" not in packed
    assert pickle.loads(packed).limit() == pytest.approx(4e-3)


def test_a_saved_profile_opens_as_an_equal_value(tmp_path):
    profile = Profile(tree(), ceilings=SLOW, peak_flops={"float32": 1e12}, world=World(size=2, mesh={"dp": 2}))
    opened = load(save(profile, tmp_path / "p.json"))
    assert opened == profile
    assert limits(opened) == {4.0}


def test_a_table_that_a_caller_gave_may_change_and_the_profile_does_not():
    mesh, peaks = {"dp": 2}, {"float32": 1e12}
    profile = Profile(tree(), world=World(mesh=mesh), peak_flops=peaks)
    mesh["dp"], peaks["float32"] = 4, 0.0
    assert profile.world.mesh == {"dp": 2}
    assert profile.peak_flops == {"float32": 1e12}


CHANGES = [
    lambda table: table.__setitem__("x", 1), lambda table: table.__delitem__("dp"), lambda table: table.update(x=1),
    lambda table: table.pop("dp"), lambda table: table.popitem(), lambda table: table.clear(),
    lambda table: table.setdefault("x", 1), lambda table: table.__ior__({"x": 1}),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_refuses_every_change_and_says_what_to_do(change):
    table = World(mesh={"dp": 2}).mesh
    with pytest.raises(TypeError, match=r"dataclasses\.replace"):
        change(table)
    assert table == {"dp": 2}
    assert table.copy() | {"x": 1} == {"dp": 2, "x": 1}


def mutable_parts(value, place="profile", seen=None):
    """Where a value holds something that can be changed."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if is_dataclass(value):
        assert type(value).__dataclass_params__.frozen, place
        named = {**{f.name: getattr(value, f.name) for f in fields(value)}, **getattr(value, "__dict__", {})}
        for name, part in named.items():
            yield from mutable_parts(part, f"{place}.{name}", seen)
    elif isinstance(value, tuple | frozenset):
        for part in value:
            yield from mutable_parts(part, f"{place}[]", seen)
    elif isinstance(value, Mapping):
        if not isinstance(value, ReadOnly):
            yield place
        for key, part in value.items():
            yield from mutable_parts(part, f"{place}[{key!r}]", seen)
    elif not isinstance(value, str | int | float | bool | None):
        yield place


def test_nothing_in_a_profile_or_a_job_can_be_changed_also_after_it_was_read():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    profile = flopsight.profile(model, (torch.randn(4, 8),), train=True, warmup=1, repeats=2)
    job = Job({0: profile, 1: profile}, size=3, problems={2: "out of memory"})
    for value in (profile, job, profile.memory_curve, profile.data_flow, profile.root, profile.coverage):
        for name in dir(type(value)):
            if not name.startswith("_") and not callable(getattr(type(value), name)):
                getattr(value, name)  # fills what is kept of it
    assert list(mutable_parts(profile)) == []
    assert list(mutable_parts(job, "job")) == []
