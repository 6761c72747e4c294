"""Every name that a user finds on a profile answers sensibly; the arithmetic is that of tests/toys.py."""

import sys
from statistics import median

import pytest
import torch
from torch import nn
from toys import DOWN, HIDDEN, LINEAR_FLOPS, MACS, OUT, PARAMS, ROWS, UP, WIDE, Net, rows

import flopsight
from flopsight.errors import InputError


@pytest.fixture(scope="module", name="profile")
def _profile():
    model = Net()
    model.up.bias.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    return flopsight.profile(model, (rows(),), train=True, optimizer=optimizer, warmup=1, repeats=3)


def test_totals_are_plain_whole_numbers(profile):
    assert profile.params == PARAMS
    assert profile.trainable_params == PARAMS - HIDDEN
    assert profile.macs == MACS
    assert profile.flops > LINEAR_FLOPS
    assert {type(n) for n in (profile.params, profile.trainable_params, profile.macs, profile.flops)} == {int}


def test_every_phase_has_its_cost(profile):
    assert (profile.forward.macs, profile.forward.flops) == (profile.macs, profile.flops)
    assert profile.backward.macs == UP + 2 * DOWN
    assert profile.recompute == flopsight.Cost()
    assert profile.optimizer.flops == PARAMS - HIDDEN
    assert profile.root.total.total.flops == profile.flops + profile.backward.flops + profile.optimizer.flops


@pytest.mark.parametrize("key", [0, slice(2), None, ["up"]], ids=repr)
def test_a_module_is_found_by_its_path_and_by_nothing_else(profile, key):
    assert profile["up"].path == "up"
    with pytest.raises(InputError, match="name of a module") as refused:
        profile[key]

    assert f"not {type(key).__name__}" in str(refused.value)


def test_times_are_seconds_with_a_median_and_a_spread(profile):
    timing = profile.timing

    for part in (timing.forward, timing.backward, timing.optimizer, timing.step):
        assert part.median == median(part.samples) == float(part)
        assert part.spread >= 0
        assert 0 < part.median < 60
    assert timing.iteration is timing.data_wait is None  # there was no loop around the step
    assert profile.latency == timing.forward.median
    assert timing.distortion > 0


def test_the_device_s_peak_decides_about_utilization(profile, monkeypatch):
    assert profile.mfu is profile.hfu is None  # no peak is known for a CPU

    monkeypatch.setenv("FLOPSIGHT_PEAK_FLOPS", "fp32=1e12")
    stated = flopsight.profile(nn.Linear(WIDE, OUT), (rows(),), warmup=0, repeats=1)

    assert stated.mfu == stated.hfu == pytest.approx(2 * ROWS * WIDE * OUT / stated.latency / 1e12)


def test_throughput_is_samples_over_the_step(profile):
    assert profile.throughput == ROWS / profile.timing.step.median
    assert profile.tokens_per_second is None


def test_memory_is_bytes(profile):
    # norm: its input and the two statistics; drop: the mask; down: what went in; up's input is the model's.
    statistics = 2 * HIDDEN
    assert profile.activation_bytes == 4 * (ROWS * HIDDEN + statistics + ROWS * HIDDEN + ROWS * HIDDEN)
    assert profile.peak_bytes > profile.activation_bytes + 4 * PARAMS


def test_coverage_tells_what_is_counted_free_and_unknown(profile):
    coverage = profile.coverage

    assert coverage.complete
    assert coverage.share == coverage.bytes_share == 1.0
    assert coverage.unknown == {}
    assert coverage.calls == sum(coverage.counted.values()) + sum(coverage.free.values())
    assert coverage.counted["aten.addmm"] == 2


def test_a_node_is_found_by_its_name(profile):
    node = profile["up"]

    assert (node.path, node.name, node.kind) == ("up", "up", "Linear")
    assert (node.params, node.trainable_params) == (WIDE * HIDDEN + HIDDEN, WIDE * HIDDEN)
    assert node.calls == 1
    assert node.input_shapes == ((ROWS, WIDE),)
    assert node.output_shapes == ((ROWS, HIDDEN),)
    assert node.latency > 0
    assert node.children == ()
    assert (node.macs, node.own.macs) == (UP, UP)
    assert node.forward.flops == node.flops == 2 * UP + ROWS * HIDDEN
    assert node.backward.macs == UP
    assert node.recompute.flops == 0
    assert node.optimizer.flops == WIDE * HIDDEN
    assert profile[""] is profile.root
    assert profile["drop"].activation_bytes == 4 * ROWS * HIDDEN


def test_the_root_owns_nothing_that_its_children_did(profile):
    assert profile.root.own.macs == 0
    assert [child.name for child in profile.root.children] == ["up", "norm", "drop", "down", "<outside>"]
    assert sum(child.flops for child in profile.root.children) + profile.root.own.flops == profile.flops


def test_a_walk_visits_every_node_parents_first(profile):
    assert [node.path for node in profile.walk()] == ["", "up", "norm", "drop", "down", "<outside>"]


def test_a_name_that_is_not_there_is_refused_with_the_nearest_one(profile):
    assert "up" in profile
    assert "uq" not in profile
    with pytest.raises(InputError, match="no module 'dawn'. Did you mean 'down'"):
        profile["dawn"]


def test_alone_in_the_world_the_whole_is_the_part(profile):
    assert (profile.world.size, profile.world.rank) == (1, 0)
    assert (profile.whole.params, profile.whole.macs, profile.whole.flops) == (
        profile.params,
        profile.macs,
        profile.flops,
    )
    assert (profile.comm, profile.part) == ((), "")


def test_the_environment_says_where_it_was_made(profile):
    environment = profile.environment

    assert environment.torch == torch.__version__
    assert environment.device == "cpu"
    assert environment.dtype == "float32"
    assert environment.flopsight == flopsight.__version__
    assert environment.threads == torch.get_num_threads()


def test_printing_is_rendering_the_tree(profile):
    assert str(profile) == profile.render("tree")
    for name in ("up: Linear", "down: Linear", "norm: BatchNorm1d"):
        assert name in str(profile)


@pytest.mark.parametrize("format", ["tree", "table", "deepspeed", "tids", "markdown", "csv", "json"])
def test_every_format_names_every_module(profile, format):
    text = profile.render(format)

    for name in ("up", "norm", "drop", "down"):
        assert name in text


def test_a_profile_survives_its_file(profile, tmp_path):
    path = profile.save(tmp_path / "made" / "for" / "it" / "p.json")

    loaded = flopsight.load(path)

    assert loaded == profile
    assert loaded["up"].macs == UP
    assert str(loaded) == str(profile)
    assert loaded.timing.forward.samples == profile.timing.forward.samples


def test_a_profile_survives_its_file_with_every_doubt(tmp_path):
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(nn.Sequential(nn.Linear(WIDE, WIDE), nn.ReLU()))
            self.other = nn.Linear(WIDE, WIDE)

        def forward(self, x):
            return self.other.forward(self.inner(x))

    profile = flopsight.count(Scripted(), (rows(),), on="meta")

    assert len({type(doubt) for doubt in profile.caveats}) == 3  # no twin, TorchScript, a forward called by hand
    assert flopsight.load(profile.save(tmp_path / "p.json")) == profile


def test_a_report_page_is_written(profile, tmp_path):
    page = profile.to_html(tmp_path / "pages" / "report.html")

    assert "norm" in page.read_text()


def test_two_profiles_compare(profile):
    other = flopsight.count(Net(), (rows(),))

    assert flopsight.compare(profile, other) is not None


def test_a_frame_without_pandas_says_what_is_missing(profile, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(InputError, match="needs pandas, which is not installed: pip install pandas"):
        profile.to_frame()


def test_flopsight_profile_is_the_function_whatever_was_imported_before(profile, tmp_path):
    import flopsight.capture.time.module_marks
    import flopsight.files.store
    import flopsight.profiling.flops_profiler

    flopsight.load(profile.save(tmp_path / "p.json"))

    assert flopsight.profile.__module__ == "flopsight.engine.measure"
    assert flopsight.count.__module__ == "flopsight.engine.measure"
    assert callable(flopsight.recording)
