"""A model at many sizes: points by arithmetic, models built once, errors that leave the other points alone."""

import csv
import io

import pytest
import torch
from releases import with_dry_runs
from torch import nn

import flopsight
from flopsight import cli
from flopsight.errors import InputError

NET = """
import torch
from torch import nn

BUILT = []

class Net(nn.Module):
    def __init__(self, width: int, depth: int = 1):
        super().__init__()
        BUILT.append(width)
        self.layers = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)])

    def forward(self, x):
        return self.layers(x)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    import sys

    (tmp_path / "swept.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name == "swept" or name.startswith("_flopsight_target_swept")]:
        del sys.modules[name]


def test_every_combination_is_counted(here):
    s = flopsight.sweep("swept.py:Net", {"width": [8, 16], "batch": [1, 3]}, inputs="{batch}x{width}")

    assert [(row["width"], row["batch"], row["macs"]) for row in s.rows] == [
        (8, 1, 64), (8, 3, 3 * 64), (16, 1, 256), (16, 3, 3 * 256),
    ]  # fmt: skip


def test_a_sweep_is_one_line_in_a_notebook(here):
    found = flopsight.sweep("swept.py:Net", {"width": [8, 16], "batch": [1, 2, 4]}, inputs="{batch}x{width}")

    assert repr(found) == "<Sweep of 6 points: width 2, batch 3>"


def test_batch_and_seq_replace_the_first_sizes_of_an_input(here):
    s = flopsight.sweep("swept.py:Net:width=8", {"batch": [2], "seq": [5]}, inputs="1x1x8")

    assert s.rows[0]["macs"] == 2 * 5 * 8 * 8


def test_a_model_is_built_once_for_points_that_differ_in_their_inputs(here):
    import sys

    flopsight.sweep("swept:Net", {"width": [8, 16], "batch": [1, 2, 3]}, inputs="{batch}x{width}")

    assert sys.modules["swept"].BUILT == [8, 16]


def test_training_is_counted_with_what_it_saves(here):
    s = flopsight.sweep("swept.py:Net:width=8", {"batch": [4, 8]}, inputs="4x8", train=True)

    # gradients of the one weight; the input needs none
    assert [row["backward_flops"] for row in s.rows] == [2 * 4 * 8 * 8 + row for row in (0, 2 * 4 * 8 * 8)]
    assert all(row["activation_bytes"] is not None and row["peak_bytes"] for row in s.rows)


def test_a_dtype_is_an_axis(here):
    s = flopsight.sweep("swept.py:Net:width=8", {"dtype": ["float32", "bf16"]}, inputs="4x8")

    assert [point.profile.root.param_bytes for point in s.points] == [8 * 8 * 4, 8 * 8 * 2]


def test_real_models_are_timed(here):
    s = flopsight.sweep("swept.py:Net:width=8", {"batch": [1, 2]}, inputs="1x8", meta=False, repeats=1, warmup=0)

    assert all(row["latency"] > 0 for row in s.rows)


def test_a_function_is_called_with_the_values():
    s = flopsight.sweep(
        lambda width, batch: (nn.Linear(width, 2, bias=False), torch.ones(batch, width)),
        {"width": [4, 8], "batch": [3]},
    )

    assert [row["macs"] for row in s.rows] == [3 * 4 * 2, 3 * 8 * 2]


def test_a_point_that_fails_says_why_and_the_others_stay():
    s = flopsight.sweep(lambda side: (nn.Linear(8, 8), torch.ones(1, side)), {"side": [8, 9]})

    assert s.rows[0]["macs"] == 64
    assert "shapes cannot be multiplied" in s.rows[1]["error"]
    assert "shapes cannot be multiplied" in str(s)


def test_where_every_point_fails_the_first_error_is_raised():
    with pytest.raises(Exception, match="shapes cannot be multiplied"):
        flopsight.sweep(lambda side: (nn.Linear(8, 8), torch.ones(1, side)), {"side": [9]})


def test_the_growth_along_an_axis_is_that_of_the_arithmetic(here):
    s = flopsight.sweep("swept.py:Net", {"width": [8, 16, 32], "batch": [4]}, inputs="{batch}x{width}")

    growth = s.growth("width")["layers.*"]
    assert growth.exact
    assert growth.quadratic == pytest.approx(2 * 4 * 32 * 32)
    assert growth.linear == pytest.approx(0, abs=1)
    with pytest.raises(InputError, match="no axis 'depth'; it has width, batch"):
        s.growth("depth")


def test_two_values_are_said_to_lie_on_any_line():
    def square(width):
        return nn.Linear(width, width), torch.ones(1, width)

    assert "2 values of width lie on such a curve in any case; one more shows" in str(
        flopsight.sweep(square, {"width": [4, 8]})
    )
    assert "a third of width" not in str(flopsight.sweep(square, {"width": [4, 8, 16]}))


def test_progress_says_the_points_and_the_time_left(here):
    told = []

    flopsight.sweep("swept.py:Net:width=8", {"batch": [1, 2]}, inputs="1x8", progress=lambda *said: told.append(said))

    assert [(done, points) for done, points, _ in told] == [(0, 2), (1, 2)]
    assert told[0][2] is None
    assert told[1][2] > 0


def test_a_value_that_is_neither_a_number_nor_a_text_is_kept_as_its_text():
    s = flopsight.sweep(
        lambda kind: (nn.Sequential(nn.Linear(8, 8), kind()), torch.ones(2, 8)), {"kind": [nn.ReLU, nn.Tanh]}
    )

    assert [point.values["kind"] for point in s.points] == [str(nn.ReLU), str(nn.Tanh)] == list(s.axes["kind"])
    assert all(point.profile.macs == 2 * 64 for point in s.points)


def test_a_named_device_says_what_fits_and_the_least_time(here):
    """An H100 SXM5: 3.35 TB/s and 80 GiB. The one layer reads its rows and its weights and writes its rows, 4 bytes each."""
    s = flopsight.sweep("swept.py:Net", {"width": [8, 200_000]}, inputs="4x{width}", on="h100-sxm")

    assert [row["fits"] for row in s.rows] == [True, False]  # the larger has 160 GB of weights
    assert s.rows[0]["least_time"] == pytest.approx(4 * (2 * 4 * 8 + 8 * 8) / 3.35e12)
    assert str(s).splitlines()[0].split()[-2:] == ["fits", "least"]
    assert "160 GB" in str(s)


def test_a_saved_sweep_is_shown_for_another_device(here, capsys):
    """An A100 SXM4 80GB: 2,039 GB/s in the place of an H100's 3,350."""
    flopsight.sweep("swept.py:Net", {"width": [8, 16]}, inputs="4x{width}", on="h100-sxm").save("s.json")

    assert cli.main(["show", "s.json", "--on", "a100-sxm4-80", "-o", "again.json", "-f", "csv"]) == 0
    assert cli.main(["show", "s.json", "--on", "a1000"]) == 2

    out, err = capsys.readouterr()
    least = [float(row["least_time"]) for row in csv.DictReader(io.StringIO(out))]
    assert least == pytest.approx([4 * (2 * 4 * width + width * width) / 2.039e12 for width in (8, 16)])
    assert flopsight.load("again.json").device == "a100-sxm4-80"
    assert "No device 'a1000' is in the table" in err


@with_dry_runs
def test_an_optimizer_a_dtype_and_a_mesh_are_those_of_every_point(here):
    stepped = flopsight.sweep("swept.py:Net:width=8", {"batch": [1, 2]}, inputs="1x8", train=True, optimizer="sgd")
    half = flopsight.sweep("swept.py:Net:width=8", {"batch": [1, 2]}, inputs="1x8", dtype="bfloat16")
    spread = flopsight.sweep(
        "swept.py:Net:width=8,depth=2", {"batch": [1, 2]}, inputs="1x8", train=True, mesh={"fsdp": 2}
    )

    assert [point.profile.optimizer.flops for point in stepped.points] == [64] * 2
    assert [point.profile.root.param_bytes for point in half.points] == [2 * 64] * 2
    assert [(point.profile.world.size, point.profile.params) for point in spread.points] == [(2, 64)] * 2
    said = "Every point is rank 0 of 2 (fsdp=2), a dry run: its inputs, parameters and work."
    assert [said in str(sweep) for sweep in (spread, stepped)] == [True, False]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimizer": "sgd"}, "An optimizer steps after a backward"),
        ({"generate": 4, "train": True}, "A generation decodes tokens"),
        ({"generate": 0}, "generate must be a whole number, 1 or more"),
        ({"dtype": "bf16", "axes": {"dtype": ["fp32"]}}, "leave one of them out"),
        ({"on": "h1000"}, "No device 'h1000' is in the table"),
        ({"generate": 4}, "cannot generate token by token"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(here, options, said):
    axes = options.pop("axes", {"batch": [1]})

    with pytest.raises(InputError, match=said):
        flopsight.sweep("swept.py:Net:width=8", axes, inputs="1x8", **options)


def test_a_loss_that_is_a_sum_is_said_once(here):
    s = flopsight.sweep("swept.py:Net:width=8", {"batch": [1, 2]}, inputs="1x8", train=True)

    assert str(s).count("The loss is the sum of the model's outputs") == 1


def test_an_axis_along_which_all_is_linear_has_no_table_of_growth(here):
    s = flopsight.sweep("swept.py:Net", {"width": [8, 16, 32], "batch": [1, 2, 4]}, inputs="{batch}x{width}")

    assert "FLOPs at width=32" in str(s)
    assert "FLOPs at batch" not in str(s)


# --- the command


def test_the_command_prints_the_points_and_writes_files(here, capsys):
    code = cli.main(
        ["sweep", "swept.py:Net", "width=8,16,1k", "batch=2", "-i", "{batch}x{width}", "--meta", *sum((["-o", f"s.{kind}"] for kind in ("csv", "svg", "md", "txt")), [])]
    )  # fmt: skip
    out = capsys.readouterr().out

    assert code == 0
    assert "1,024" in out
    assert "quadratic" in out
    assert (here / "s.csv").read_text().splitlines()[1].startswith(f"8,2,64,{2 * 64}")
    assert (here / "s.svg").read_text().startswith("<svg")
    assert (here / "s.md").read_text().startswith("| width | batch |")
    assert (here / "s.txt").read_text() == out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["swept.py:Net", "width"], "'width' is not an axis. Axes look like batch=1,8,64"),
        (["swept.py:Net", "width=1,,2"], "'width=1,,2' is not an axis"),
        (["swept.py:Net", "batch=a"], "'a' is not a whole number"),
        (["swept.py:Net", "batch=0"], "batch must be 1 or more"),
        (["swept.py:Net", "batch=1", "batch=2"], "The axis batch is given twice."),
        (["swept.py:Net", "widht=1"], "swept.py:Net has no argument 'widht'. Did you mean 'width'?"),
        (["swept.py:Net", "width=1", "-i", "{side}x8"], "'{side}x8' names no axis of this sweep in its braces; there are width."),
        (["swept.py:Net", "width=1", "-o", "x.xls"], "it can be .json, .csv, .md, .tex, .txt, .html, .svg, .png, .pdf"),
        (["swept.py:Net", "dtype=bf16,fp32", "-o", "x.svg"], "A plot needs an axis of numbers; dtype has none. Write .csv, .md or .txt."),
        (["swept.py:Net", "dtype=bf61"], "There is no dtype 'bf61'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(here, capsys, words, said):
    assert cli.main(["sweep", *words]) == 2
    assert said in capsys.readouterr().err


def test_seq_is_the_length_of_an_embedded_models_sequences():
    swept = flopsight.sweep("zoo:gpt2", {"seq": [64, 128]})

    # per token: 12 blocks with 12 * 768^2 of products and 2 * seq * 768 of attention, and the head
    assert [row["macs"] for row in swept.rows] == [
        seq * (12 * (12 * 768**2 + 2 * seq * 768) + 768 * 50257) for seq in (64, 128)
    ]


def test_a_sequence_past_the_positions_of_a_model_is_refused_on_meta_too():
    for model, most in (("gpt2", 1024), ("bert-base", 512)):
        swept = flopsight.sweep(f"zoo:{model}", {"seq": [most, most + 1]})

        assert [bool(point.profile) for point in swept.points] == [True, False]
        assert f"{most} positions" in swept.points[1].error


@pytest.mark.parametrize("target", ["zoo:resnet18", "unsized.py:made"])
def test_seq_that_would_change_nothing_is_refused(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unsized.py").write_text(
        "import torch\n\ndef made():\n    return torch.nn.Linear(8, 8), torch.ones(2, 8)\n"
    )

    with pytest.raises(InputError, match="seq"):
        flopsight.sweep(target, {"seq": [64, 128]})
