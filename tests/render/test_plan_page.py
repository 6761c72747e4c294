"""The page of a plan: its head has the best option's figures; one that does not fit has no speed."""

import re
from dataclasses import replace

import pytest

from flopsight import cli
from flopsight.render.plan_page import plan_html
from flopsight.results.plan import Plan, PlanOption

OPTION = PlanOption(
    mesh={"fsdp": 8}, micro_batch=8, accumulate=1, checkpoint="none", parts={"products": 3.0, "host": 1.0},
    memory={"parameters": 2 * 10**9, "activations": 10**9}, room=4 * 10**9, gpus=8, samples=64, tokens=64 * 1000,
    model_flops=64 * 10**12, peak_flops=8 * 10**12, why="products take most",
)  # fmt: skip


def tiles(option):
    page = plan_html(Plan("zoo:net", "H100", 8, (option,), {"batch": "64"}))
    return re.findall(r'<dt>(.*?)</dt><dd class="value">(.*?)</dd><dd class="soft">(.*?)</dd>', page)


def test_the_head_has_step_rate_mfu_and_memory():
    assert tiles(OPTION) == [
        ("Predicted step", "4.00 s", "75.0% of it is products"),
        ("Tokens a second", "2.00 k", "on each of 8 GPUs"),  # 64 * 1000 / 4 / 8
        ("MFU", "25.0%", "2 TFLOP/s a GPU"),  # 64 / (4 * 8) of 8 TFLOP/s
        ("Peak memory", "3.00 GB", "of 4.00 GB free on a GPU"),
    ]


def test_a_model_without_tokens_has_samples_of_all_gpus():
    assert tiles(replace(OPTION, tokens=None))[1] == ("Samples a second", "16", "on 8 GPUs")


def test_what_does_not_fit_has_no_speed():
    option = replace(OPTION, room=10**9)
    assert tiles(option) == [("Peak memory", "3.00 GB", "of 1.00 GB free on a GPU")]
    assert '<p class="verdict">Nothing fits.' in plan_html(Plan("zoo:net", "H100", 8, (option,)))


ASSUMED = ("words " * 60).strip()
WIDE = Plan("zoo:net", "H100", 8, (replace(OPTION, why=ASSUMED, assumptions=(ASSUMED,)),), {"batch": "64"})


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_page(width):
    lines = WIDE.render(width=width).splitlines()

    assert max(map(len, lines)) <= width
    assert sum(line.count("words") for line in lines) == 2 * 60


def test_a_narrow_table_loses_columns_and_names_them():
    kept = {
        "mesh": 6,
        "micro-batch": 11,
        "accumulate": 10,
        "checkpoint": 10,
        "peak": 7,
        "predicted step": 14,
        "tokens/s/GPU": 12,
    }
    narrow = sum(kept.values()) + 2 * (len(kept) - 1)
    text = WIDE.render(width=narrow)

    row = next(line for line in text.splitlines() if line.startswith("mesh "))
    assert row.split() == " ".join(kept).split()
    assert "No room for of GPU, MFU, bound: --width" in " ".join(text.split())
    assert "No room" not in WIDE.render(width=120)


@pytest.mark.parametrize(("at_once", "said"), [(1, "1 sequence at once"), (8, "8 sequences at once")])
def test_one_sequence_is_not_several(at_once, said):
    plan = Plan("zoo:net", "H100", 8, (replace(OPTION, micro_batch=at_once),), {"serve": "yes"})

    assert f"fsdp=8, {said}, 64 on all GPUs" in plan.render(width=100)


def test_one_gpu_is_not_several():
    alone = replace(OPTION, gpus=1, mesh={"dp": 1})
    several = Plan("zoo:net", "H100", 8, (alone, OPTION), {"batch": "64"})

    assert "Best: 1 GPU, dp=1," in several.render(width=200)
    assert tiles(alone)[1] == ("Tokens a second", "16.0 k", "on 1 GPU")  # 64 * 1000 / 4
    too_large = Plan("zoo:net", "H100", 1, (replace(alone, samples=1, room=10**9),), {"serve": "yes"})
    assert "weights, cache and temporaries of its 1 sequence are 3.00 GB on" in too_large.render(width=200)


def test_what_does_not_fit_says_so_in_a_narrow_table_too():
    plan = replace(WIDE, options=(replace(OPTION, bound="compute"), replace(OPTION, room=10**9)))

    full = max(len(line) for line in plan.render(width=200).splitlines() if line.startswith("mesh "))
    lines = plan.render(width=full - 10).splitlines()  # less than the columns of what binds and of MFU take

    assert any(line.startswith("fsdp=8") and "too large" in line for line in lines)
    assert "No room for MFU, bound: --width" in " ".join(lines)


def test_a_command_takes_the_width(tmp_path, capsys):
    path = WIDE.save(tmp_path / "plan.json")

    assert cli.main(["show", str(path), "--width", "70"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 70


def test_kinds_of_memory_have_the_colours_of_the_report_page():
    page = plan_html(Plan("zoo:net", "H100", 8, (OPTION,)))
    assert '<i style="background:#0072B2"></i>parameters' in page
    assert '<i style="background:#E69F00"></i>activations' in page
