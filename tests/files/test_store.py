"""Profiles on disk: what is written reads back the same, and what is no profile is one sentence."""

import gc
import json
import os
from dataclasses import replace
from typing import get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import lenet, linear, module, oddities, rooted, stack
from random_trees import trees

import flopsight
from flopsight.analysis.compare import compare
from flopsight.errors import ProfileFileError
from flopsight.files import store
from flopsight.render.formats import PRINTED
from flopsight.results import caveats
from flopsight.results.costs import Cost, OpRow
from flopsight.results.coverage import Coverage, UnknownOp
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import Whole, World

seconds = st.just(0.0) | st.floats(1e-9, 10)
times = st.none() | st.builds(Stat, st.lists(seconds, min_size=1, max_size=3).map(tuple))
names = st.text(max_size=5)
counts = st.dictionaries(names, st.integers(0, 9), max_size=2)
PLAIN = {str: names, int: st.integers(0, 9), float: seconds, bool: st.booleans(), type(None): st.none()}


def values(hint):
    """Any value of a type that a caveat's field may have."""
    if hint in PLAIN:
        return PLAIN[hint]
    inner = [values(arg) for arg in get_args(hint) if arg is not ...]
    return st.lists(*inner, max_size=2).map(tuple) if get_origin(hint) is tuple else st.one_of(inner)


def doubts():
    """Every kind of caveat, its fields filled by their types."""
    return st.one_of(
        st.builds(kind, **{name: values(hint) for name, hint in get_type_hints(kind).items()})
        for kind in caveats.all_kinds().values()
    )


profiles = st.builds(
    Profile,
    root=trees,
    coverage=st.builds(
        Coverage, counted=counts, free=counts, bytes_known=st.integers(0, 9),
        unknown=st.dictionaries(names, st.builds(UnknownOp, calls=st.integers(1, 9), modules=st.lists(names, max_size=2).map(tuple), why=names), max_size=2),
    ),
    timing=st.builds(Timing, forward=times, backward=times, optimizer=times, step=times, distortion=st.none() | st.floats(1, 3)),
    environment=st.builds(Environment, torch=names, device=names),
    caveats=st.lists(doubts(), max_size=3).map(tuple),
    batch_size=st.none() | st.integers(1, 9),
    trained=st.booleans(),
    step=st.none() | st.integers(0, 9),
    peak_flops=st.dictionaries(names, st.floats(1, 1e15), max_size=2),
    world=st.builds(World, size=st.integers(1, 8), sharded=st.booleans()),
    unsharded=st.none() | st.builds(Whole, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
)  # fmt: skip


@given(profile=profiles)
def test_load_after_store_is_the_identity(profile):
    assert store.loads(store.dumps(profile)) == profile


@pytest.mark.parametrize("make", [lenet, stack, oddities])
def test_a_saved_file_loads_as_the_same_profile_and_draws_the_same_page(make, tmp_path):
    profile = make()

    loaded = flopsight.load(profile.save(tmp_path / "deep" / "down" / "p.json"))

    assert loaded == profile
    assert loaded.render("tree") == profile.render("tree")


def test_a_profile_that_differs_in_one_figure_is_not_equal():
    assert store.loads(store.dumps(lenet())) != store.loads(store.dumps(lenet(batch=1025)))


def test_a_caveat_of_a_newer_version_is_kept_as_a_note():
    page = json.loads(store.dumps(oddities()))
    page["profile"]["caveats"] = [{"caveat": "Sunspots", "size": 3}]

    (kept,) = store.loads(json.dumps(page)).caveats

    assert "Sunspots" in str(kept)


def test_what_a_newer_version_adds_to_the_same_schema_is_passed_over():
    profile = stack(2, width=8)
    page = json.loads(store.dumps(profile))
    page["profile"]["weather"] = "fine"
    page["profile"]["root"]["modules"][0]["colour"] = 3
    page["profile"]["root"]["ops"] = [{"op": "aten.mm", "phase": "forward", "calls": 1, "new": 1}]

    assert store.loads(json.dumps(page)) == profile


NESTED = {
    "path": "", "name": "", "kind": "Net", "calls": 1, "own": {"forward": {"flops": 5}},
    "children": [
        {"path": "up", "name": "up", "kind": "Linear", "own": {"forward": {"macs": 3}}, "parameters": [{"key": 1, "name": "w", "numel": 7}],
         "ops": [{"op": "aten.mm", "phase": "forward", "calls": 1, "cost": {"macs": 3, "flops": 6}}]},
        {"path": "<outside>", "name": "<outside>", "kind": ""},
    ],
}  # fmt: skip
"""A tree as schema 1 has it."""


def test_a_file_of_the_first_schema_still_opens():
    text = json.dumps({"kind": store.KIND, "schema": 1, "profile": {"root": NESTED}})

    profile = store.loads(text)

    assert [node.path for node in profile.walk()] == ["", "up", "<outside>"]
    assert (profile.macs, profile.flops, profile.params) == (3, 5 + 6, 7)
    assert profile["up"].ops[0].cost.macs == 3


def test_a_model_of_any_depth_is_saved_loaded_and_shown(tmp_path):
    depth = 1500
    node = replace(linear("x", 4, 8, 8), path=".".join("x" * depth))
    for level in reversed(range(depth)):
        node = replace(module("x" if level else "", "Block", node), path=".".join("x" * level))
    profile = Profile(node)

    loaded = flopsight.load(profile.save(tmp_path / "deep.json"))

    assert loaded.macs == 4 * 8 * 8
    assert loaded.root.params == 8 * 8 + 8
    assert len(loaded.nodes) == depth + 1
    for name in PRINTED:
        if name != "trace":
            assert loaded.render(name)
    assert loaded.to_html(tmp_path / "deep.html").exists()
    assert compare(loaded, loaded).same


def test_equal_op_rows_are_written_once():
    row = OpRow("aten.mm", "forward", 1, Cost(3))
    layers = (module(str(i), "Linear", macs=3, ops=(row,)) for i in range(12))

    text = store.dumps(Profile(rooted(module("", "Net", *layers))))

    assert text.count("aten.mm") == 1
    assert text.count('"macs":3') == 2, "the op row's, and the modules' own"


def test_the_garbage_collector_is_as_it_was():
    gc.disable()
    try:
        store.loads(store.dumps(lenet()))
        assert not gc.isenabled()
    finally:
        gc.enable()
    store.loads(store.dumps(lenet()))
    assert gc.isenabled()


def one_sentence(problem):
    text = str(problem.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def load_text(text, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(text)
    return flopsight.load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("hello", "is not JSON"),
        ("[1, 2]", "is JSON, but not a flopsight profile"),
        ('{"a": 1}', "is JSON, but not a flopsight profile"),
        ('{"kind": "flopsight profile"}', "schema None"),
        ('{"kind": "flopsight profile", "schema": 1}', "is a damaged flopsight profile"),
        ('{"kind": "flopsight profile", "schema": 1, "profile": 3}', "is a damaged flopsight profile"),
        ('{"kind": "flopsight profile", "schema": 1, "profile": {"root": {}}}', "is a damaged flopsight profile"),
        ('{"kind": "flopsight profile", "schema": true, "profile": {}}', "has schema True; a schema is a whole number"),
        ('{"kind": "flopsight profile", "schema": -3, "profile": {}}', "has schema -3; a schema is a whole number"),
        ('{"kind": "flopsight profile", "schema": 2, "profile": NaN}', "is not JSON"),
        ('{"kind": ' + 5000 * "[", "is nested too deeply|is not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_profile_is_one_sentence_that_names_the_file(text, said, tmp_path):
    with pytest.raises(ProfileFileError, match=said) as problem:
        load_text(text, tmp_path)

    assert "p.json" in one_sentence(problem)


def test_a_file_cut_short_is_one_sentence(tmp_path):
    text = store.dumps(stack(2, width=8))

    with pytest.raises(ProfileFileError) as problem:
        load_text(text[: len(text) // 2], tmp_path)

    one_sentence(problem)


def test_a_newer_schema_says_to_upgrade(tmp_path):
    text = store.dumps(lenet()).replace('"schema":2', '"schema":3')

    with pytest.raises(
        ProfileFileError, match="has schema 3, this flopsight reads up to 2. Upgrade flopsight"
    ) as problem:
        load_text(text, tmp_path)

    one_sentence(problem)


def test_a_missing_file_and_a_directory_are_one_sentence(tmp_path):
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(ProfileFileError) as problem:
            flopsight.load(path)

        assert str(path) in one_sentence(problem)


def test_a_pipe_and_a_device_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path / "pipe.json", "/dev/zero"):
        with pytest.raises(ProfileFileError, match="cannot be read: it is a (pipe|device), not a file") as problem:
            flopsight.load(path)

        assert str(path) in one_sentence(problem)


def test_bytes_that_are_no_text_are_one_sentence(tmp_path):
    path = tmp_path / "p.json"
    path.write_bytes(b"\xff\xfe\x00\x81")

    with pytest.raises(ProfileFileError, match="cannot be read") as problem:
        flopsight.load(path)

    one_sentence(problem)
