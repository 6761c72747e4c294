"""Pictures for papers: what is on them, read from the SVG, and files that are whole or not there."""

import re
from dataclasses import replace

import pytest
from profiles import lenet, module, rooted

from flopsight.errors import InputError
from flopsight.render.plots import curve, icicle, roofline
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.memory_curve import MemoryCurve
from flopsight.results.profile import Environment, Profile


@pytest.fixture(autouse=True)
def text_stays_text():
    """Letters as text in the SVG, not as outlines."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        yield


def texts(path):
    return [
        re.sub(r"<[^>]+>", "", text).strip() for text in re.findall(r"<text.*?</text>", path.read_text(), re.DOTALL)
    ]


CURVE = MemoryCurve(
    (0, 4, 8),
    {"parameters": (100, 100, 100), "temporaries": (0, 400, 0)},
    ("", "fc", "fc"),
    ("", "forward", "backward"),
)
PRODUCT = Cost(macs=5000, flops=10_000, bytes=200)


def computing():
    node = replace(
        module("fc", "Linear"),
        own=Phases(forward=PRODUCT),
        ops=(OpRow("aten.mm", "forward", 1, PRODUCT, dtype="float32"),),
    )
    ceilings = Ceilings("toy", {"float32": 1000.0}, bandwidth=100.0)
    return Profile(rooted(module("", "Net", node)), ceilings=ceilings, environment=Environment(dtype="float32"))


def test_an_icicle_names_its_modules(tmp_path):
    said = texts(icicle(lenet(), tmp_path / "icicle.svg", by="flops"))

    assert {"LeNet5", "feature_extractor: Sequential", "LeNet5, width by flops"} <= set(said)


def test_an_icicle_by_something_else_names_what_it_can_be_drawn_by(tmp_path):
    with pytest.raises(InputError, match="it can be drawn by time, flops, params, saved"):
        icicle(lenet(), tmp_path / "icicle.svg", by="luck")


def test_a_roofline_has_the_devices_peak_and_its_ridge(tmp_path):
    said = texts(roofline(computing(), tmp_path / "roofline.svg"))

    # 1,000 FLOP/s over 100 bytes a second
    assert "float32 1.00 kFLOP/s, ridge at 10" in said
    assert "Net on toy (datasheet)" in said


def test_a_roofline_without_ceilings_says_how_to_name_a_device(tmp_path):
    with pytest.raises(InputError, match="--on h100-sxm"):
        roofline(replace(computing(), ceilings=None), tmp_path / "roofline.svg")


def test_a_roofline_is_drawn_on_another_device(tmp_path):
    said = texts(roofline(replace(computing(), ceilings=None), tmp_path / "roofline.svg", on="h100-sxm"))

    assert "Net on H100 SXM5 80GB (datasheet)" in said


def test_memory_over_the_step_names_the_peak_the_phases_and_the_kinds(tmp_path):
    said = texts(curve(replace(lenet(), memory_curve=CURVE), tmp_path / "curve.svg"))

    assert {"peak 500 B, forward of fc", "forward", "backward", "parameters", "temporaries"} <= set(said)


def test_a_profile_without_a_curve_says_why(tmp_path):
    with pytest.raises(InputError, match="no memory curve"):
        curve(lenet(), tmp_path / "curve.svg")


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_every_kind_of_picture_is_written_whole_over_an_old_one(tmp_path, suffix, start):
    path = tmp_path / f"icicle{suffix}"
    path.write_bytes(b"old")

    icicle(lenet(), path)

    assert path.read_bytes().startswith(start)
    assert [one.name for one in tmp_path.iterdir()] == [path.name], "nothing half written is left"


def test_a_picture_of_another_kind_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match=r"its suffix can be \.svg, \.png, \.pdf"):
        icicle(lenet(), tmp_path / "icicle.gif")
    assert not list(tmp_path.iterdir())


def test_a_name_with_dollar_signs_is_no_formula(tmp_path):
    evil = replace(lenet(), root=replace(lenet().root, kind=r"$\frac{$"))

    assert any(r"$\frac{$" in text for text in texts(icicle(evil, tmp_path / "icicle.svg")))


def test_several_pictures_are_written_or_none(tmp_path, monkeypatch, capsys):
    from flopsight import cli

    monkeypatch.chdir(tmp_path)
    lenet().save("cpu.json")
    computing().save("p.json")
    pictures = ["-o", "icicle.svg", "-o", "a.roofline.png"]

    assert cli.main(["show", "cpu.json", *pictures]) == 2
    assert "There is no roofline of" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"cpu.json", "p.json"}

    assert cli.main(["show", "p.json", "--on", "h100-sxm", *pictures]) == 0
    assert b"<svg" in (tmp_path / "icicle.svg").read_bytes()
    assert (tmp_path / "a.roofline.png").read_bytes().startswith(b"\x89PNG")
