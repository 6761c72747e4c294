"""The model runs as the user would run it here: in its own mode, under the gradients, autocast and dtypes around the call."""

import pytest
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from toys import HIDDEN, LINEAR_FLOPS, MACS, OUT, PARAMS, ROWS, WIDE, Net, rows

import flopsight

NORM_TRAINED, NORM_EVAL = 5 * ROWS * HIDDEN, 2 * ROWS * HIDDEN
"""Batch norm: five for every element in training, two in eval."""


def dtypes(profile, path):
    return {op.dtype for op in profile[path].ops if op.cost.macs}


@pytest.mark.parametrize("measure", [flopsight.count, lambda *a: flopsight.profile(*a, warmup=0, repeats=1)])
def test_the_model_runs_in_the_mode_it_is_in(measure):
    model = Net()

    training = measure(model, (rows(),))
    evaluated = measure(model.eval(), (rows(),))

    assert training["norm"].flops == NORM_TRAINED
    assert evaluated["norm"].flops == NORM_EVAL
    assert training["drop"].calls == evaluated["drop"].calls == 1
    assert training["drop"].flops > evaluated["drop"].flops == 0
    assert evaluated.flops == LINEAR_FLOPS + NORM_EVAL


def test_a_submodule_in_another_mode_keeps_it():
    model = Net()
    model.norm.eval()

    assert flopsight.count(model, (rows(),))["norm"].flops == NORM_EVAL


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("on", ["real", "meta"])
def test_costs_are_the_same_with_and_without_gradients(around, on):
    model, x = Net().eval(), rows()

    with around():
        profile = flopsight.count(model, (x,), on=on)

    assert profile.macs == MACS
    assert profile.flops == LINEAR_FLOPS + NORM_EVAL
    assert profile.backward.flops == 0


def test_without_gradients_nothing_is_saved_for_backward():
    model, x = Net(), rows()

    with torch.no_grad():
        assert flopsight.count(model, (x,)).activation_bytes == 0
    assert flopsight.count(model, (x,)).activation_bytes > 0


def test_a_model_made_in_inference_mode_is_counted_inside_and_outside_of_it():
    with torch.inference_mode():
        model, x = Net().eval(), rows()
        inside = flopsight.count(model, (x,))
    with torch.no_grad():
        outside = flopsight.count(model, (x,))

    assert inside.macs == outside.macs == MACS


def test_a_model_in_half_precision_has_half_the_bytes():
    full = flopsight.count(Net().eval(), (rows(),))
    half = flopsight.count(Net().eval().to(torch.bfloat16), (rows(dtype=torch.bfloat16),))

    assert half.macs == full.macs == MACS
    assert half.environment.dtype == "bfloat16"
    assert half.root.param_bytes == full.root.param_bytes / 2 == 2 * PARAMS
    assert half["up"].forward.bytes * 2 == full["up"].forward.bytes
    assert dtypes(half, "up") == {"bfloat16"}


def test_autocast_shows_in_the_dtype_that_products_ran_in():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        profile = flopsight.count(Net(), (rows(),))

    assert profile.macs == MACS
    assert dtypes(profile, "up") == dtypes(profile, "down") == {"bfloat16"}


def test_a_count_on_meta_under_autocast_casts_as_the_model_would():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        real, meta = (flopsight.count(Net(), (rows(),), on=on) for on in ("real", "meta"))

    assert meta.macs == MACS
    assert dtypes(meta, "up") == dtypes(meta, "down") == {"bfloat16"}
    assert meta.forward.bytes == real.forward.bytes
    assert not meta.caveats


@pytest.mark.parametrize("train", [False, True])
def test_a_model_on_meta_is_counted_and_not_timed(train):
    with torch.device("meta"):
        model, x = Net(), torch.empty(ROWS, WIDE)

    profile = flopsight.profile(model, (x,), train=train)

    assert profile.macs == MACS
    assert profile.latency is None
    assert profile.timing.forward is None
    assert profile.throughput is None
    assert profile.environment.device == "meta"
    assert bool(profile.backward.macs) is train


def test_a_model_on_meta_takes_real_inputs():
    with torch.device("meta"):
        model = Net()

    assert flopsight.count(model, (rows(),)).macs == MACS


@pytest.mark.parametrize("train", [False, True])
def test_a_count_on_meta_equals_the_count_on_real_tensors_row_by_row(train):
    model, x = Net(), rows()

    real = flopsight.count(model, (x,), train=train)
    meta = flopsight.count(model, (x,), train=train, on="meta")

    figures = lambda profile: {node.path: (node.forward, node.backward, node.calls) for node in profile.walk()}
    assert figures(meta) == figures(real)
    assert meta.activation_bytes == real.activation_bytes


def test_a_module_without_parameters_is_counted():
    profile = flopsight.count(nn.ReLU(), (rows(),))

    assert (profile.params, profile.macs, profile.flops) == (0, 0, ROWS * WIDE)


def test_a_lazy_model_is_counted_with_the_shapes_of_its_first_input():
    lazy = nn.Sequential(nn.LazyLinear(HIDDEN), nn.ReLU(), nn.LazyLinear(OUT))

    profile = flopsight.count(lazy, (rows(),))

    assert profile.macs == MACS
    assert profile.params == (WIDE * HIDDEN + HIDDEN) + (HIDDEN * OUT + OUT)


def lazy_ones(model):
    return [type(module).__name__ for module in model.modules() if isinstance(module, LazyModuleMixin)]


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_lazy_model_that_gets_its_shapes_from_us_is_told_so(on):
    lazy = nn.Sequential(nn.LazyLinear(HIDDEN), nn.ReLU(), nn.LazyLinear(OUT))

    first, second = (flopsight.count(lazy, (rows(),), on=on) for _ in range(2))

    (said,) = [str(caveat) for caveat in first.caveats if "lazy" in str(caveat)]
    assert said.startswith("0, 2 were lazy")
    assert 'on="copy"' in said
    assert not lazy_ones(lazy)
    assert not any("lazy" in str(caveat) for caveat in second.caveats)


def test_a_copy_of_a_lazy_model_leaves_it_lazy_and_says_nothing():
    lazy = nn.Sequential(nn.LazyLinear(HIDDEN), nn.ReLU(), nn.LazyLinear(OUT))

    profile = flopsight.count(lazy, (rows(),), on="copy")

    assert profile.macs == MACS
    assert lazy_ones(lazy) == ["LazyLinear", "LazyLinear"]
    assert not any("lazy" in str(caveat) for caveat in profile.caveats)


@pytest.mark.parametrize("norm", [lambda: nn.BatchNorm1d(HIDDEN), nn.LazyBatchNorm1d], ids=["plain", "lazy"])
def test_the_forward_that_gives_a_lazy_model_its_shapes_counts_as_no_batch(norm):
    model = nn.Sequential(nn.LazyLinear(HIDDEN), norm())
    x = rows()
    before = x.clone()

    flopsight.count(model, (x,))

    assert model[1].num_batches_tracked == 0
    assert torch.equal(model[1].running_mean, torch.zeros(HIDDEN))
    assert torch.equal(model[1].running_var, torch.ones(HIDDEN))
    assert torch.equal(x, before)


def test_strict_passes_a_model_whose_ops_are_all_known():
    assert flopsight.count(Net(), (rows(),), strict=True).coverage.complete


def test_a_replayed_graph_is_an_unknown_op_of_its_module(monkeypatch):
    """What replays here is nothing; tests/gpu has a real graph."""
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda _graph: None)

    class Replays(nn.Linear):
        def forward(self, x):
            torch.cuda.CUDAGraph.replay(None)
            return super().forward(x)

    profile = flopsight.count(nn.Sequential(Replays(4, 3)), (torch.ones(2, 4),))

    missing = profile.coverage.unknown["cuda.graph_replay"]
    assert (missing.calls, missing.modules) == (1, ("0",))
    assert profile.macs == 2 * 4 * 3
    assert torch.cuda.CUDAGraph.replay.__name__ == "<lambda>"


def test_strict_refuses_a_model_with_an_unknown_op_and_names_it():
    @torch.library.custom_op("toys::mystery", mutates_args=())
    def mystery(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)

    class Mysterious(nn.Module):
        def forward(self, x):
            return mystery(x)

    loose = flopsight.count(Mysterious(), (rows(),))

    assert list(loose.coverage.unknown) == ["toys.mystery"]
    for measure in (flopsight.count, flopsight.profile):
        with pytest.raises(flopsight.FlopsightError, match=r"toys\.mystery") as refusal:
            measure(Mysterious(), (rows(),), strict=True)
        assert refusal.value.exit_code == 1
