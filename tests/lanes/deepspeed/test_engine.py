"""Real DeepSpeed engines with a `flops_profiler` block, after `import flopsight.integrations.deepspeed`."""

import re

import pytest
from lanes.deepspeed import net
from lanes.deepspeed.engines import run

OURS = "flopsight.integrations.deepspeed.EngineProfiler"


@pytest.fixture(scope="module", name="alone")
def _alone(tmp_path_factory):
    """Engines in one process; ZeRO-3 comes last because it replaces functions of torch for good."""
    ours = {"profiler": "ours"}
    return run(
        tmp_path_factory.mktemp("alone"),
        1,
        disabled={"stage": 0, "profiler": "none"},
        stage0=ours | {"stage": 0},
        stage1=ours | {"stage": 1},
        stage2=ours | {"stage": 2},
        bf16=ours | {"stage": 1, "config": {"bf16": {"enabled": True}}},
        hooked=ours | {"stage": 0, "user_hook": True},
        evaluated=ours | {"stage": 0, "evaluate": True},
        accumulated=ours | {"stage": 2, "batches": 3},
        forward_only=ours | {"stage": 0, "phases": ["forward"]},
        switched_off={"stage": 0, "profiler": "off"},
        stage3=ours | {"stage": 3},
        stage3_hooked=ours | {"stage": 3, "user_hook": True},
    )


@pytest.fixture(scope="module", name="pair")
def _pair(tmp_path_factory):
    """Engines over two processes."""
    ours = {"profiler": "ours"}
    return run(
        tmp_path_factory.mktemp("pair"),
        2,
        stage0=ours | {"stage": 0},
        stage3=ours | {"stage": 3, "batches": 2},
        persistent=ours | {"stage": 3, "threshold": 64},
        disabled={"stage": 3, "batches": 2, "profiler": "none"},
    )


@pytest.mark.parametrize(
    "name", ["stage0", "stage1", "stage2", "bf16", "hooked", "evaluated", "stage3", "stage3_hooked"]
)
def test_every_stage_counts_one_forward_of_the_whole_model(alone, name):
    profile = alone[name].profile

    assert (profile.macs, profile.flops) == (net.MACS, net.FLOPS)
    assert profile.params == profile.whole.params == net.PARAMS
    assert profile["up"].macs == net.BATCH * net.WIDTH * net.INNER
    assert (profile.root.calls, profile.step, profile.batch_size) == (1, 1, net.BATCH)


@pytest.mark.parametrize("name", ["stage0", "stage1", "stage2", "stage3"])
def test_an_engines_forward_is_counted_beside_its_run_so_its_latency_is_true(alone, name):
    assert not [caveat for caveat in alone[name].profile.caveats if "counted while it was timed" in str(caveat)]


def test_a_model_that_cannot_have_a_twin_is_counted_as_it_runs_and_says_so(alone):
    for name in ("hooked", "stage3_hooked"):
        assert "down (Linear) has hooks" in alone[name].pages[0]


def test_the_text_is_printed_once_under_the_configured_step(alone):
    for name in ("stage0", "stage3", "accumulated"):
        assert len(alone[name].pages) == 1
        assert alone[name].pages[0].splitlines()[1] == "Profile Summary at step 1:"


def test_the_summary_holds_the_engines_numbers(alone):
    summary = alone["stage0"]

    assert summary.fact("world size") == "1"
    assert summary.fact("data parallel size") == "1"
    assert summary.fact("batch size per GPU") == str(net.BATCH)
    assert summary.fact("params per gpu") == f"{net.PARAMS / 1000:.2f} k".replace("0 k", " k")
    assert summary.fact("fwd MACs per GPU") == f"{round(net.MACS / 1000, 2)} KMACs"
    assert summary.fact("fwd flops per GPU") == f"{round(net.FLOPS / 1000, 2)} K"


def seconds(text):
    value, unit = text.split()
    return float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]


@pytest.mark.parametrize("name", ["stage0", "accumulated", "stage3"])
def test_latencies_are_those_of_the_engines_own_timers(alone, name):
    summary = alone[name]
    after = summary.text[summary.text.index(summary.pages[0]) :]
    logged = re.search(r"\| fwd: ([\d.]+) \| bwd: ([\d.]+) .*\| step: ([\d.]+)", after)  # in ms, two digits

    for label, value in zip(("fwd latency", "bwd latency", "step latency"), logged.groups(), strict=True):
        assert seconds(summary.fact(label)) == pytest.approx(float(value) / 1000, abs=1.1e-5, rel=0.01)
    timing = summary.profile.timing
    whole = timing.forward.median + timing.backward.median + timing.optimizer.median
    assert seconds(summary.fact("iter latency")) == pytest.approx(whole, rel=0.01)
    samples = summary.profile.batch_size / whole
    assert float(summary.fact("samples/second")) == pytest.approx(samples, rel=0.001)


def test_a_step_of_accumulated_gradients_is_all_its_batches(alone):
    profile = alone["accumulated"].profile

    assert (profile.macs, profile.flops, profile.root.calls) == (3 * net.MACS, 3 * net.FLOPS, 3)
    assert alone["accumulated"].fact("batch size per GPU") == str(3 * net.BATCH)


def test_only_the_phases_of_the_block_are_printed(alone):
    summary = alone["forward_only"]

    assert summary.profile.macs == net.MACS
    assert (summary.profile.timing.backward, summary.profile.timing.optimizer) == (None, None)
    assert "Left out by the settings: backward, optimizer." in summary.pages[0]
    assert "bwd latency:" in alone["stage0"].pages[0]
    assert "bwd latency:" not in summary.pages[0]


def test_losses_are_those_of_an_engine_without_a_profiler(alone, pair):
    for name in ("stage0", "hooked", "evaluated"):
        assert alone[name].ranks[0]["losses"] == alone["disabled"].ranks[0]["losses"]
    for mine, plain in zip(pair["stage3"].ranks, pair["disabled"].ranks, strict=True):
        assert mine["losses"] == plain["losses"]


def test_nothing_is_left_on_the_engine_or_the_model(alone, pair):
    assert alone["stage0"].ranks[0]["profiler"] == OURS
    assert alone["stage0"].ranks[0]["hooks"] == alone["disabled"].ranks[0]["hooks"]
    assert pair["stage3"].ranks[0]["hooks"] == pair["disabled"].ranks[0]["hooks"]
    assert not any(facts["patched"] for result in (*alone.values(), *pair.values()) for facts in result.ranks)


def test_an_engine_whose_profiler_is_disabled_has_nothing_of_ours(alone):
    for name in ("disabled", "switched_off"):
        assert alone[name].ranks[0]["profiler"] == "builtins.NoneType"
        assert alone[name].pages == []


def test_two_ranks_of_zero_0_hold_the_whole_model_each(pair):
    summary = pair["stage0"]

    assert summary.profile.params == summary.profile.whole.params == net.PARAMS
    assert (summary.fact("world size"), summary.fact("data parallel size")) == ("2", "2")
    assert "params of model = params per GPU * mp_size" in summary.text


def test_two_ranks_of_zero_3_show_their_part_and_the_whole(pair):
    summary = pair["stage3"]

    half = sum((size + 1) // 2 for size in net.SIZES)  # an odd tensor is padded to be split evenly
    assert [facts["kept_parameters"] for facts in summary.ranks] == [half, half], "what DeepSpeed holds on each rank"
    assert summary.profile.params == half
    assert summary.profile.whole.params == net.PARAMS
    assert summary.fact("params per gpu") == f"{round(half / 1000, 2)} k"
    assert summary.fact("params of model") == f"{round(net.PARAMS / 1000, 2)} k"
    assert summary.profile.macs == 2 * net.MACS, "two batches; no rank computes for another"


def test_parameters_that_persist_are_held_whole(pair):
    split = [size for size in net.SIZES if size > 64]
    kept = sum(net.SIZES) - sum(split) + sum((size + 1) // 2 for size in split)

    assert pair["persistent"].profile.params == kept
    assert pair["persistent"].profile.whole.params == net.PARAMS


def test_only_rank_0_prints_and_throughput_is_that_of_all_ranks(pair):
    assert "Profile Summary" not in pair["stage3"].ranks[1]["text"]
    timing = pair["stage0"].profile.timing
    whole = timing.forward.median + timing.backward.median + timing.optimizer.median
    assert float(pair["stage0"].fact("samples/second")) == pytest.approx(2 * net.BATCH / whole, rel=0.001)


def test_uninstalling_gives_new_engines_deepspeeds_profiler_back():
    from deepspeed.profiling.flops_profiler import FlopsProfiler
    from deepspeed.runtime import engine

    import flopsight.integrations.deepspeed as integration

    assert engine.FlopsProfiler is integration.make_profiler
    integration.uninstall()
    assert engine.FlopsProfiler is FlopsProfiler
    integration.install()
    assert engine.FlopsProfiler is integration.make_profiler
    integration.uninstall()
