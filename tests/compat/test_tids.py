"""TIDSProfiler: the older profilers' example, and what its text says."""

import re

from compat.profiling import X, profiled
from torch import nn
from toys import HIDDEN, MACS, OUT, PARAMS, ROWS, WIDE, Net

from flopsight import TIDSProfiler

LINE = re.compile(
    r"^(?P<indent> *)\((?P<name>\w+)\): (?P<kind>\w+), num_params (?P<params>\d+), (?P<ms>[\d.]+)ms, (?P<share>[\d.]+)% latency, "
    r"input shape (?P<takes>\[.*?\]), output shape (?P<gives>\[.*?\])$",
    re.MULTILINE,
)


def test_the_tids_example_runs_as_printed(capsys):
    model, inputs = Net(), X

    # start profiling
    prof = TIDSProfiler(model)
    prof.start_profile()
    model(inputs)
    profile = prof.generate_profile()
    print(profile)
    prof.end_profile()

    rows = [found.groupdict() for found in LINE.finditer(capsys.readouterr().out)]
    assert [(row["name"], row["kind"], len(row["indent"])) for row in rows] == [
        ("model", "Net", 0), ("up", "Linear", 8), ("norm", "BatchNorm1d", 8), ("drop", "Dropout", 8), ("down", "Linear", 8),
    ]  # fmt: skip
    assert [int(row["params"]) for row in rows] == [PARAMS, WIDE * HIDDEN + HIDDEN, 2 * HIDDEN, 0, HIDDEN * OUT + OUT]
    assert rows[0]["takes"] == f"[{ROWS}, {WIDE}]"
    assert rows[0]["gives"] == f"[{ROWS}, {OUT}]"
    assert rows[1]["gives"] == rows[2]["takes"] == f"[{ROWS}, {HIDDEN}]"
    assert float(rows[0]["share"]) == 100
    half = 0.5 * 10 ** -len(rows[0]["ms"].partition(".")[2])  # what rounding to the printed digits may hide
    whole = float(rows[0]["ms"])
    for row in rows[1:]:
        part = float(row["ms"])
        assert 100 * (part - half) / (whole + half) - 0.001 <= float(row["share"]), row
        assert whole <= half or float(row["share"]) <= 100 * (part + half) / (whole - half) + 0.001, row


def test_a_tids_profile_knows_its_numbers_and_can_be_made_before_the_stop():
    prof = TIDSProfiler(Net())
    prof.start_profile()
    prof.model(X)
    first = prof.generate_profile()
    prof.model(X)
    second = prof.generate_profile()
    prof.end_profile()

    assert (first.profile.macs, second.profile.macs) == (MACS, 2 * MACS)
    assert prof.get_total_macs() == 2 * MACS


def test_tids_prints_to_a_file_and_to_a_depth(tmp_path):
    prof = profiled(nn.Sequential(Net()), TIDSProfiler)
    path = tmp_path / "there" / "tids.txt"

    prof.print_model_profile(module_depth=1, output_file=path)

    assert [found["name"] for found in LINE.finditer(path.read_text())] == ["model", "0"]
