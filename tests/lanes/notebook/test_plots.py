"""Pictures for papers: what is on them, read from the SVG, and files that are whole or not there."""

import re
from dataclasses import replace

import pytest
from matplotlib.text import Text
from profiles import lenet, module, rooted

from flopsight import cli
from flopsight.errors import InputError
from flopsight.render.pictures.canvas import tick
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.memory_curve import MemoryCurve
from flopsight.results.plan import Plan, PlanOption
from flopsight.results.profile import Environment, Profile
from flopsight.results.records import Span
from flopsight.results.timings import Stat, Timing


@pytest.fixture(autouse=True)
def text_stays_text():
    """Letters as text in the SVG, not as outlines."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        yield


def texts(picture):
    svg = picture.encoded("svg").decode()
    return [re.sub(r"<[^>]+>", "", text).strip() for text in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


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


def test_an_icicle_names_its_modules():
    said = texts(lenet().plot.icicle(by="flops"))

    assert {"LeNet5", "Conv2d"} <= set(said), "a module, and a kind in the legend"
    assert any(text.startswith("feature_extractor ") and text.endswith("%") for text in said)
    assert any(text.startswith("LeNet5: ") and text.endswith("width by FLOPs of the step") for text in said)


def stacked(times):
    """A training step of 10 s: three equal blocks, each with these seconds of forward and backward; the rest is the optimizer's."""
    leaf = replace(module("fc", "Linear"), latency=times[0], backward_latency=times[1])
    blocks = [replace(module(str(n), "Block", leaf), latency=times[0], backward_latency=times[1]) for n in range(3)]
    layers = replace(module("layers", "ModuleList", *blocks), latency=3 * times[0], backward_latency=3 * times[1])
    root = replace(module("", "Net", layers), latency=3 * times[0], backward_latency=3 * times[1])
    whole = 3 * sum(times)
    timing = Timing(
        forward=Stat((3 * times[0],)), backward=Stat((3 * times[1],)), optimizer=Stat((10 - whole,)), step=Stat((10.0,))
    )
    return Profile(rooted(root), timing=timing, trained=True)


def test_an_icicle_by_time_shows_the_whole_step_with_stacks_as_one_and_the_optimizer():
    said = texts(stacked((2.0, 0.5)).plot.icicle(by="time"))

    assert "Net: 10.0 s, width by time" in said
    assert {"layers 75%", "Block x 3 75%", "fc 75%", "optimizer 25%"} <= set(said)


def test_a_name_without_room_ends_in_an_ellipsis():
    leaves = [replace(module(f"a_very_long_name_{n}", "Linear"), latency=1.0) for n in "abcdefgh"]
    wide = Profile(rooted(replace(module("", "Net", *leaves), latency=8.0)))

    said = texts(wide.plot.icicle(by="time"))

    assert any(text.startswith("a_very_") and text.endswith("…") for text in said)


def test_a_profile_hands_out_figures_that_show_themselves():
    figure = stacked((2.0, 1.0)).plot.icicle(width=3.4)

    assert figure.get_figwidth() == 3.4
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_timeline_has_modules_over_the_ops_that_no_other_op_covers():
    spans = (
        Span("Net", "module", 0, 1_000_000, 1),
        Span("fc", "module", 0, 600_000, 1, "fc"),
        Span("aten::linear", "op", 0, 600_000, 1, "fc"),
        Span("aten::addmm", "op", 100_000, 500_000, 1, "fc"),
    )

    said = texts(replace(lenet(), timeline=spans).plot.timeline())

    assert {"modules", "ops", "Net", "fc", "aten::linear"} <= set(said)
    assert "aten::addmm" not in said


def test_a_profile_without_a_timeline_says_how_to_take_one():
    with pytest.raises(InputError, match="timeline=True"):
        lenet().plot.timeline()


def test_an_icicle_by_something_else_names_what_it_can_be_drawn_by():
    with pytest.raises(InputError, match="it can be drawn by time, flops, params, saved"):
        lenet().plot.icicle(by="luck")


def test_a_roofline_has_the_devices_peak_and_its_ridge():
    said = texts(computing().plot.roofline())

    # 1,000 FLOP/s over 100 bytes a second
    assert "float32 1.00 kFLOP/s, ridge at 10" in said
    assert "limits of Net on toy (datasheet)" in said


def product(name, time, rate=100.0):
    """A leaf with one product; its place in the roofline is where all of them are, or below."""
    node = module(name, "Linear", latency=time)
    return replace(
        node,
        own=Phases(forward=Cost(macs=5000, flops=int(rate * time), bytes=200)),
        ops=(OpRow("aten.mm", "forward", 1, PRODUCT, dtype="float32"),),
    )


def test_modules_of_one_name_are_told_apart_in_a_roofline():
    blocks = [module(str(i), "Block", product("conv", 2.0 + i)) for i in range(2)]
    model = module("", "Net", module("first", "Stage", *blocks), module("last", "Stage", product("conv", 9.0)))
    said = texts(replace(computing(), root=rooted(model)).plot.roofline())

    assert {"first.0.conv", "first.1.conv", "last.conv"} <= set(said)


def test_the_line_to_a_name_crosses_no_other_name():
    crowd = [product(f"{'long_name_of_a_layer' * (i % 3)}{i}", 5.0, 100.0 + i) for i in range(12)]
    picture = replace(computing(), root=rooted(module("", "Net", *crowd))).plot.roofline()
    picture.draw_without_rendering()
    measure = picture.canvas.get_renderer()
    named = [text for text in picture.axes[0].texts if text.get_text() in {one.name for one in crowd}]
    away = [text for text in named if text.arrow_patch]

    assert len(named) > len(away) > 0
    for text in away:
        line = text.arrow_patch.get_transform().transform_path(text.arrow_patch.get_path())
        others = [Text.get_window_extent(other, measure) for other in named if other is not text]
        assert not any(line.intersects_bbox(box, filled=False) for box in others), text.get_text()


@pytest.mark.parametrize(
    ("text", "shorter"),
    [("0.100", "0.1"), ("7.00 GB", "7 GB"), ("10.0 k", "10 k"), ("1.50 s", "1.5 s"), ("200 ms", "200 ms")],
)
def test_a_number_on_an_axis_loses_the_zeros_behind_its_point_and_no_others(text, shorter):
    assert tick(text) == shorter


def test_a_roofline_without_ceilings_says_how_to_name_a_device():
    with pytest.raises(InputError, match="--on h100-sxm"):
        replace(computing(), ceilings=None).plot.roofline()


def test_a_roofline_is_drawn_on_another_device():
    said = texts(replace(computing(), ceilings=None).plot.roofline(on="h100-sxm"))

    assert "limits of Net on H100 SXM5 80GB (datasheet)" in said


def test_memory_over_the_step_names_the_peak_the_phases_and_the_kinds():
    said = texts(replace(lenet(), memory_curve=CURVE).plot.memory())

    assert {"peak 500 B, forward of fc", "forward", "backward", "parameters", "temporaries"} <= set(said)


def test_a_profile_without_a_curve_says_why():
    with pytest.raises(InputError, match="no memory curve"):
        lenet().plot.memory()


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_every_kind_of_picture_is_written_whole_over_an_old_one(tmp_path, monkeypatch, suffix, start):
    path = tmp_path / f"icicle{suffix}"
    path.write_bytes(b"old")

    monkeypatch.chdir(tmp_path)
    lenet().save("p.json")

    assert cli.main(["show", "p.json", "-o", path.name]) == 0

    assert path.read_bytes().startswith(start)
    assert {one.name for one in tmp_path.iterdir()} == {path.name, "p.json"}, "nothing half written is left"


def test_a_picture_of_another_kind_is_refused_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lenet().save("p.json")

    assert cli.main(["show", "p.json", "-o", "icicle.gif"]) == 2

    assert "The suffix of -o icicle.gif says no format" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["p.json"]


def test_a_name_with_dollar_signs_is_no_formula():
    evil = replace(lenet(), root=replace(lenet().root, kind=r"$\frac{$"))

    assert any(r"$\frac{$" in text for text in texts(evil.plot.icicle()))


def test_several_pictures_are_written_or_none(tmp_path, monkeypatch, capsys):
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


def test_a_roofline_has_a_roof_for_a_cache_whose_bandwidth_is_known():
    plain = computing()
    cached = replace(plain, ceilings=replace(plain.ceilings, cache=4096, cache_bandwidth=400.0))

    assert "cache 400 B/s" in texts(cached.plot.roofline())
    assert not any(text.startswith("cache") for text in texts(plain.plot.roofline()))


def planned(*options):
    return Plan("zoo:net", "H100", 8, options, {"batch": "64"})


OPTION = PlanOption(
    mesh={"fsdp": 8}, micro_batch=8, accumulate=1, checkpoint="none", parts={"products": 3.0, "host": 1.0},
    memory={"parameters": 2 * 10**9, "activations": 10**9}, room=4 * 10**9, gpus=8, samples=64, tokens=None,
    model_flops=64 * 10**12, peak_flops=8 * 10**12,
)  # fmt: skip


def test_a_plan_has_a_bar_for_each_option_with_its_sum_and_what_a_gpu_has():
    large = replace(OPTION, checkpoint="full", memory={"parameters": 5 * 10**9})
    plan = planned(OPTION, large)
    memory = texts(plan.plot.memory())
    step = texts(plan.plot.step(top=1))

    assert {"fsdp=8, 8 x 1", "3.00 GB", "fsdp=8, 8 x 1, full", "5.00 GB", "4.00 GB free", "activations"} <= set(memory)
    assert {"62.5 ms", "products", "host"} <= set(step), "(3 + 1) s / 64 samples"
    assert "fsdp=8, 8 x 1, full" not in step


def test_bars_of_a_plan_are_as_long_as_their_parts():
    bars = planned(OPTION).plot.memory().axes[0].patches

    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(0, 2 * 10**9), (2 * 10**9, 10**9)]
