"""A sweep is a value: saved, read back without torch, and drawn the same in every format that it has."""

import csv
import io
import json
from dataclasses import FrozenInstanceError, replace

import pytest
from interpreters import LIGHT, fork
from profiles import lenet, module, rooted

import flopsight
from flopsight import cli
from flopsight.errors import InputError, ProfileFileError
from flopsight.files import store
from flopsight.results.profile import Profile
from flopsight.results.sweep import Point, Sweep

EVIL = "a\x1b[31mred"


def point(batch, dtype):
    """A product of 8 by 8 and an addition for each element, `batch` rows of 8."""
    root = rooted(
        module("", "Net", module("0", "Linear", macs=64 * batch, flops=2 * 64 * batch + 8 * batch, params=(64,)))
    )
    return Point({"batch": batch, "dtype": dtype}, Profile(root))


def made():
    axes = {"batch": (1, 2, 4), "dtype": ("float32",)}
    return Sweep(
        axes, (point(1, "float32"), point(2, "float32"), Point({"batch": 4, "dtype": "float32"}, error="too large"))
    )


def test_a_saved_sweep_is_the_same_value_again(tmp_path):
    sweep = made()

    again = flopsight.load(sweep.save(tmp_path / "s.json"))

    assert isinstance(again, flopsight.Sweep)
    assert again == sweep
    assert again.rows == sweep.rows
    assert str(again) == str(sweep)
    assert again.growth("batch")["*"].linear == 2 * (128 + 8)


def test_the_points_stand_in_every_format(tmp_path):
    sweep = made()

    rows = list(csv.DictReader(io.StringIO(sweep.render("csv"))))
    assert [(row["batch"], row["macs"], row["error"]) for row in rows] == [
        ("1", "64", ""),
        ("2", "128", ""),
        ("4", "", "too large"),
    ]
    assert sweep.render("markdown").startswith("| batch | dtype | params | MACs | FLOPs |")
    assert r"1 & float32 & 64 & 64 & 136" in sweep.render("latex")
    first, _, *lines = sweep.render().splitlines()
    assert first.split()[:4] == ["batch", "dtype", "params", "MACs"]
    assert lines[1].split()[:4] == ["2", "float32", "64", "128"]
    assert "batch=4, dtype=float32: too large" in lines
    page = sweep.to_html(tmp_path / "s.html").read_text(encoding="utf-8")
    assert page.count("<svg") == page.count("</svg>") == 1
    assert "<td>128</td>" in page
    assert "<td>128</td>" in sweep._repr_mimebundle_()["text/html"]
    with pytest.raises(InputError, match="A sweep cannot be drawn as table. Formats: tree, markdown, latex, csv, json"):
        sweep.render("table")


def test_the_page_begins_with_how_many_points_there_are_and_the_range_of_what_it_plots(tmp_path):
    page = made().to_html(tmp_path / "s.html").read_text(encoding="utf-8")

    assert "<h1>Net</h1>" in page
    assert '<p class="verdict">2 of 3 points counted</p>' in page
    # a row of 8 is 64 MACs and 8 additions, 136 FLOPs; two rows are twice that
    assert '<dt>Forward FLOPs</dt><dd class="value">136 to 272</dd>' in page


def test_the_page_of_a_device_says_how_many_points_fit_it_and_the_range_of_those(tmp_path):
    points = [
        replace(one, profile=replace(one.profile, peak_bytes=peak))
        for one, peak in zip((point(1, "float32"), point(2, "float32")), (10 * 10**9, 200 * 10**9), strict=True)
    ]
    sweep = Sweep({"batch": (1, 2), "dtype": ("float32",)}, tuple(points), device="h100-sxm")

    page = sweep.to_html(tmp_path / "s.html").read_text(encoding="utf-8")

    assert '<p class="verdict">1 of 2 points fit H100 SXM5 80GB</p>' in page
    assert '<dt>Peak memory</dt><dd class="value">10.0 GB</dd><dd class="soft">of 85.9 GB</dd>' in page


def test_show_draws_a_saved_sweep_without_torch(tmp_path):
    sweep = made()
    sweep.save(tmp_path / "s.json")
    (tmp_path / "shown.py").write_text(
        "import sys\nfrom flopsight import cli\nassert cli.main(sys.argv[1:]) == 0\nassert 'torch' not in sys.modules\n"
    )

    done = fork(["shown.py", "show", "s.json", "-o", "again.md", "-o", "plot.svg"], tmp_path, LIGHT)

    assert done.code == 0, done.err
    assert done.out == f"{sweep}\n"
    assert (tmp_path / "again.md").read_text(encoding="utf-8") == sweep.render("markdown")
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "s.json", "-f", "table"], "A sweep cannot be drawn as table."),
        (["show", "s.json", "--depth", "2"], "A sweep is drawn without --depth: leave it out."),
        (["show", "s.json", "-o", "x.gif"], "The suffix of x.gif says no format of a sweep"),
        (
            ["diff", "s.json", "s.json"],
            "s.json is a sweep of 3 points, not one profile. Show it: flopsight show s.json",
        ),
        (["ops", "s.json"], "s.json is a sweep of 3 points, not one profile."),
        (["advise", "s.json"], "s.json is a sweep of 3 points, not one profile."),
    ],
)
def test_what_a_sweep_is_not_made_for_is_one_sentence(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    made().save("s.json")

    assert cli.main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda page: page.pop("axes"), "sweep.axes is missing"),
        (lambda page: page["axes"].clear(), "sweep.points do not have one value for every axis"),
        (lambda page: page["points"][0]["values"].pop("batch"), "sweep.points do not have one value for every axis"),
        (lambda page: page["points"][0]["values"].update(batch=[1]), "is a list, not a number or a text"),
        (lambda page: page["points"][0].update(error="both"), "has neither a profile nor an error, or both"),
        (lambda page: page["points"][2].update(error=""), "has neither a profile nor an error, or both"),
        (lambda page: page["points"][0].update(profile=3), "sweep.points[].profile is 3, not a table"),
    ],
)
def test_a_damaged_sweep_is_refused_by_its_place(change, said):
    file = json.loads(store.dumps(made()))
    change(file["sweep"])

    with pytest.raises(ProfileFileError) as refused:
        store.loads(json.dumps(file))
    assert said in str(refused.value)


def test_a_sweep_does_not_change_and_holds_no_objects_of_others():
    sweep = made()

    with pytest.raises(FrozenInstanceError):
        sweep.points = ()
    with pytest.raises(TypeError, match="do not change"):
        sweep.axes["batch"] = ()
    with pytest.raises(TypeError, match="do not change"):
        sweep.points[0].values["batch"] = 7


def test_a_name_that_does_not_print_is_escaped():
    sweep = Sweep(
        {"dtype": (EVIL,)}, (Point({"dtype": EVIL}, replace(lenet(), caveats=())), Point({"dtype": EVIL}, error=EVIL))
    )

    for shown in (str(sweep), sweep.render("markdown"), sweep.render("latex"), sweep.render("csv")):
        assert shown.replace("\n", "").isprintable()
