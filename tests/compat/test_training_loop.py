"""The older profilers' training loop, as printed there; every number in the text is held to arithmetic."""

import sys

import pytest
import torch
from compat.printed import aggregate, number, summary, tree
from toys import HIDDEN, LINEAR_FLOPS, MACS, OUT, PARAMS, ROWS, UP, WIDE, Net

import flopsight
from flopsight.profiling.flops_profiler import FlopsProfiler

NORM, DROP = 5 * ROWS * HIDDEN, 2 * ROWS * HIDDEN
"""Batch norm in training, and a mask that is scaled and applied."""
FLOPS = LINEAR_FLOPS + NORM + DROP


class Model(Net):
    """The older profilers' model takes a batch and returns its loss."""

    def forward(self, batch):
        return super().forward(batch).square().mean()


LOSS = 2 * ROWS * OUT


def test_the_older_profilers_training_loop_runs_as_printed(capsys):
    torch.manual_seed(0)
    data_loader = [torch.randn(ROWS, WIDE) for _ in range(8)]
    results = {}

    # --- as in the older profilers
    model = Model()
    prof = FlopsProfiler(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    profile_step = 5
    print_profile = True

    for step, batch in enumerate(data_loader):
        # start profiling at training step "profile_step"
        if step == profile_step:
            prof.start_profile()

        # forward() method
        loss = model(batch)

        # end profiling and print output
        if step == profile_step:  # if using multi nodes, check global_rank == 0 as well
            prof.stop_profile()
            flops = prof.get_total_flops()
            macs = prof.get_total_macs()
            params = prof.get_total_params()
            if print_profile:
                prof.print_model_profile(profile_step=profile_step)
            prof.end_profile()

        # runs backpropagation
        loss.backward()

        # weight update
        optimizer.step()
        results[step] = loss.item()
    # ---

    assert (flops, macs, params) == (FLOPS + LOSS, MACS, PARAMS)
    text = capsys.readouterr().out
    assert "Profile Summary at step 5:" in text
    assert text.startswith("-------------------------- Flops Profiler --------------------------\n")
    assert text.endswith("-" * 78 + "\n")
    assert len(results) == 8


@pytest.fixture(name="profiler")
def _profiler():
    profiler = FlopsProfiler(Net())
    profiler.start_profile()
    profiler.model(torch.randn(ROWS, WIDE))
    profiler.stop_profile()
    return profiler


def near(figure):
    """Two decimals of a figure with three digits before its unit."""
    return pytest.approx(figure, abs=0.00501 * 10 ** (3 * ((len(str(int(figure))) - 1) // 3)))


def test_the_summary_states_the_totals(profiler, capsys):
    profiler.print_model_profile()
    said = summary(capsys.readouterr().out)

    assert said["params per gpu"] == PARAMS
    assert said["params of model = params per GPU * mp_size"] == PARAMS
    assert said["fwd MACs per GPU"] == near(MACS)
    assert said["fwd flops per GPU"] == near(FLOPS)
    assert said["batch size per GPU"] == ROWS
    latency = profiler.get_total_duration()
    assert said["fwd latency"] == pytest.approx(latency, rel=0.01)
    assert said["fwd FLOPS per GPU = fwd flops per GPU / fwd latency"] == pytest.approx(FLOPS / latency, rel=0.01)


def test_the_tree_states_every_module_and_its_shares(profiler, capsys):
    profiler.print_model_profile()
    rows = tree(capsys.readouterr().out)

    assert list(rows) == ["", "up", "norm", "drop", "down"]
    expected = {"": (PARAMS, MACS), "up": (WIDE * HIDDEN + HIDDEN, UP), "norm": (2 * HIDDEN, 0), "drop": (0, 0),
                "down": (HIDDEN * OUT + OUT, MACS - UP)}  # fmt: skip
    for name, (params, macs) in expected.items():
        row = rows[name]
        assert number(row["params"]) == params
        assert number(row["macs"]) == near(macs)
        assert float(row["share"]) == pytest.approx(100 * params / PARAMS, abs=0.005)
        assert float(row["macs_share"]) == pytest.approx(100 * macs / MACS, abs=0.005)
        assert number(row["latency"]) > 0
    assert rows["up"]["rest"] == f"in_features={WIDE}, out_features={HIDDEN}, bias=True)"
    assert sum(number(rows[name]["latency"]) for name in expected if name) <= number(rows[""]["latency"]) * 1.01
    assert number(rows["up"]["rate"]) == pytest.approx(
        (2 * UP + ROWS * HIDDEN) / number(rows["up"]["latency"]), rel=0.02
    )


def test_the_aggregate_goes_down_to_the_deepest_modules(profiler, capsys):
    profiler.print_model_profile(top_modules=3, detailed=False)
    text = capsys.readouterr().out
    depths = aggregate(text)

    assert list(depths) == [0, 1]
    assert depths[0]["params"] == {"Net": PARAMS}
    assert depths[1]["params"] == {"Linear": PARAMS - 2 * HIDDEN, "BatchNorm1d": 2 * HIDDEN, "Dropout": 0}
    assert depths[1]["MACs"] == {"Linear": near(MACS), "BatchNorm1d": 0, "Dropout": 0}
    assert tree(text) == {}


@pytest.mark.parametrize(("depth", "rows"), [(0, [""]), (1, ["", "up", "norm", "drop", "down"]), (-1, 5), (7, 5)])
def test_the_module_depth_cuts_tree_and_aggregate(profiler, capsys, depth, rows):
    profiler.print_model_profile(module_depth=depth)
    text = capsys.readouterr().out

    found = list(tree(text))
    assert len(found) == rows if isinstance(rows, int) else found == rows
    assert len(aggregate(text)) == (1 if depth == 0 else 2)


def test_the_aggregate_can_be_printed_alone(profiler, capsys):
    profiler.print_model_aggregated_profile(module_depth=-1, top_modules=1)
    text = capsys.readouterr().out

    assert aggregate(text)[1]["params"] == {"Linear": PARAMS - 2 * HIDDEN}
    assert "Profile Summary" not in text


@pytest.mark.parametrize(
    ("method", "figure", "text"),
    [
        ("get_total_flops", FLOPS, f"{round(FLOPS / 1000, 2)} K"),
        ("get_total_macs", MACS, f"{MACS} MACs"),
        ("get_total_params", PARAMS, f"{PARAMS}"),
    ],
)
def test_totals_come_as_numbers_or_as_text(profiler, method, figure, text):
    assert getattr(profiler, method)() == figure
    assert getattr(profiler, method)(as_string=True).strip() == text


def test_a_duration_comes_as_seconds_or_as_text(profiler):
    seconds = profiler.get_total_duration()

    assert 0 < seconds < 60
    assert number(profiler.get_total_duration(as_string=True)) == pytest.approx(seconds, rel=0.01)


def test_text_goes_where_stdout_is_when_it_is_printed(profiler, monkeypatch):
    import io

    there = io.StringIO()
    monkeypatch.setattr(sys, "stdout", there)

    profiler.print_model_profile()

    assert sys.stdout is there
    assert "Flops Profiler" in there.getvalue()


def test_a_stdout_that_refuses_is_not_left_changed(profiler, monkeypatch):
    class Refuses:
        def write(self, text):
            raise OSError("full")

        def flush(self):
            pass

    refuses = Refuses()
    monkeypatch.setattr(sys, "stdout", refuses)

    with pytest.raises(OSError, match="full"):
        profiler.print_model_profile()
    assert sys.stdout is refuses


def test_a_file_is_made_with_its_directories_and_replaced(profiler, tmp_path, capsys):
    path = tmp_path / "not" / "there" / "yet" / "profile.txt"

    profiler.print_model_profile(profile_step=3, output_file=str(path))
    profiler.print_model_profile(profile_step=4, output_file=path)

    text = path.read_text()
    assert text.count("Profile Summary at step") == text.count("Profile Summary at step 4:") == 1
    assert capsys.readouterr().out == ""


def test_both_import_paths_give_the_same_class():
    from flopsight.profiling.flops_profiler import get_model_profile

    assert FlopsProfiler is flopsight.FlopsProfiler
    assert get_model_profile is flopsight.get_model_profile
