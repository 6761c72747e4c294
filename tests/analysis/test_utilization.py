"""MFU and HFU of step profiles written by formula, against published figures and arithmetic in the test."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flopsight.analysis.limits.utilization import (
    achieved,
    flops_per_token,
    hfu,
    mfu,
    mfu_causal,
    model_flops,
    step_seconds,
    why_unknown,
)
from flopsight.analysis.summary_facts import facts
from flopsight.files import store
from flopsight.render.summary import caveats
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.node import Node
from flopsight.results.profile import Environment, Profile
from flopsight.results.timings import Stat, Timing

PUBLISHED = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "data/published.json").read_text(encoding="utf-8"))["mfu_cases"]
}
A100 = {"bfloat16": 312e12, "float32": 19.5e12}


def gpt_step(batch, *, layers, width, seq, vocab, fused=True, checkpointed=False, dtype="bfloat16"):
    """One training step of a decoder: 12 d^2 weights a layer, causal attention, a head over the vocabulary."""
    tokens = batch * seq
    weights = tokens * (12 * layers * width**2 + vocab * width)
    scores = layers * batch * seq**2 * width  # one product of S x S x d over all heads; attention has two
    forward = Cost(2 * scores, skipped_macs=scores)
    again = scores if fused else 0
    backward = Cost(4 * scores + again, skipped_macs=(4 * scores + again) // 2, recompute_macs=again)
    rows = [
        OpRow("aten.mm", "forward", 1, Cost(weights), dtype=dtype),
        OpRow("aten.attention", "forward", 1, forward, dtype=dtype),
        OpRow("aten.attention_backward", "backward", 1, backward, dtype=dtype),
        OpRow("aten.mm", "backward", 1, Cost(2 * weights), dtype=dtype),
        OpRow("aten.layer_norm", "forward", 1, Cost(flops=5 * tokens * width), dtype=dtype),
        OpRow("aten._fused_adam", "optimizer", 1, Cost(flops=1000), dtype="float32"),
    ]
    if checkpointed:
        rows.append(OpRow("aten.mm", "recompute", 1, Cost(weights), dtype=dtype))
        rows.append(OpRow("aten.attention", "recompute", 1, forward, dtype=dtype))
    return step(rows, batch_size=batch, tokens=tokens)


def step(rows, seconds=1.0, *, peaks=A100, trained=True, **more):
    """A profile whose root ran these rows."""
    own = Phases(**{
        phase: sum((row.cost for row in rows if row.phase == phase), start=Cost())
        for phase in ("forward", "backward", "recompute", "optimizer")
    })  # fmt: skip
    timing = Timing(iteration=Stat((seconds,))) if trained else Timing(forward=Stat((seconds,)))
    return Profile(
        Node("", "model", "GPT", own=own, ops=tuple(rows)), timing=timing, trained=trained, peak_flops=peaks, **more
    )


def mm(macs, phase="forward", dtype="bfloat16", op="aten.mm"):
    return OpRow(op, phase, 1, Cost(macs), dtype=dtype)


def taking(profile, seconds):
    return replace(profile, timing=Timing(iteration=Stat((seconds,))))


@pytest.mark.parametrize("fused", [True, False])
def test_nanogpts_mfu_is_reproduced_whichever_attention_kernel_ran(fused):
    case = PUBLISHED["nanoGPT 124M A100 MFU"]
    batch, seq = case["config"]["batch"], case["config"]["seq"]
    profile = gpt_step(batch, layers=12, width=768, seq=seq, vocab=50257, fused=fused)
    profile = replace(taking(profile, case["config"]["t"]), peak_flops={"bfloat16": case["config"]["peak"]})

    assert model_flops(profile) == 874_944_921_600 * batch
    assert 100 * mfu(profile) == pytest.approx(case["published"], abs=case["abs_tol"])


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name.startswith("MPT")])
def test_the_mpt_rows_are_reproduced_once_their_idle_parameters_are_charged_too(name):
    """The published 6N charges the position table, biases and norms as if they were matrices; ours does not."""
    case, vocab = PUBLISHED[name], 50368
    config = case["config"]
    layers, width, seq, rate = config["L"], config["d"], config["seq"], config["tok_s_gpu"]
    profile = replace(
        gpt_step(1, layers=layers, width=width, seq=seq, vocab=vocab), peak_flops={"bfloat16": config["peak"]}
    )
    profile = taking(profile, seq / rate)

    idle = seq * width + layers * 13 * width + 2 * width
    assert 12 * layers * width**2 + vocab * width + idle == config["N"]
    charged = 6 * idle * rate / config["peak"]
    assert 100 * (mfu(profile) + charged) == pytest.approx(case["published"], abs=case["abs_tol"])
    assert 0 < charged / mfu(profile) < 0.013


def test_hfu_adds_what_a_fused_attention_backward_repeats():
    profile = gpt_step(8, layers=2, width=64, seq=128, vocab=100)
    scores = 2 * 8 * 128**2 * 64

    assert hfu(profile) - mfu(profile) == pytest.approx(2 * scores / 312e12)
    assert hfu(gpt_step(8, layers=2, width=64, seq=128, vocab=100, fused=False)) == mfu(profile)


def test_full_checkpointing_makes_hfu_four_thirds_of_mfu():
    profile = gpt_step(8, layers=2, width=64, seq=128, vocab=100, fused=False, checkpointed=True)

    assert hfu(profile) == pytest.approx(4 / 3 * mfu(profile))
    assert mfu(profile) == mfu(gpt_step(8, layers=2, width=64, seq=128, vocab=100))


def test_causal_mfu_leaves_out_half_of_attention_in_both_passes_and_nothing_twice():
    layers, width, seq, vocab = 2, 64, 128, 100
    weights = 6 * 4 * seq * (12 * layers * width**2 + vocab * width)
    attention = 12 * layers * width * seq * 4 * seq  # 12 L d s for every token

    for fused in (True, False):
        profile = gpt_step(4, layers=layers, width=width, seq=seq, vocab=vocab, fused=fused)
        assert mfu(profile) == pytest.approx((weights + attention) / 312e12)
        assert mfu_causal(profile) == pytest.approx((weights + attention / 2) / 312e12)


def said(profile):
    """What the summary says beside each figure."""
    return {fact.label: fact.note for group in facts(profile) for fact in group}


def test_each_dtype_is_held_against_its_own_peak():
    profile = step([mm(10**12), mm(10**11, dtype="float32"), mm(2 * 10**12, "backward")])

    assert mfu(profile) == pytest.approx(6e12 / 312e12 + 2e11 / 19.5e12)


def test_float32_convolutions_are_held_against_tf32_where_cudnn_may_use_it():
    rows = [mm(10**12, dtype="float32"), mm(10**12, dtype="float32", op="aten.convolution")]
    profile = step(rows, peaks={"float32": 19.5e12, "float32/cudnn": 156e12})

    assert mfu(profile) == pytest.approx(2e12 / 19.5e12 + 2e12 / 156e12)
    assert "156 TFLOP/s in float32 as TF32 (50.0% of the work)" in said(profile)["MFU"]


def test_the_optimizers_and_pointwise_work_is_no_model_work():
    bare = step([mm(10**12)])
    busy = step(
        [mm(10**12), mm(10**12, "optimizer"), OpRow("aten.add", "forward", 1, Cost(flops=10**12), dtype="bfloat16")]
    )

    assert mfu(busy) == mfu(bare) == pytest.approx(2e12 / 312e12)
    assert hfu(busy) == hfu(bare)


def test_the_time_is_the_median_of_the_iterations():
    profile = replace(step([mm(10**12)]), timing=Timing(iteration=Stat((1.0, 1.0, 1.0, 1.0, 9.0))))

    assert model_flops(profile) == 2e12
    assert mfu(profile) == pytest.approx(2e12 / 312e12)


def test_an_iteration_goes_before_a_step_and_a_step_before_its_parts():
    profile = step([mm(1)])
    parts = Timing(forward=Stat((1.0,)), backward=Stat((2.0,)), optimizer=Stat((0.5,)))

    assert step_seconds(replace(profile, timing=replace(parts, step=Stat((4.0,)), iteration=Stat((5.0,))))) == 5.0
    assert step_seconds(replace(profile, timing=replace(parts, step=Stat((4.0,))))) == 4.0
    assert step_seconds(replace(profile, timing=parts)) == 3.5
    assert step_seconds(replace(profile, timing=Timing(forward=Stat((1.0,))))) is None


def test_without_a_backward_it_is_the_forwards_mfu_and_says_so():
    profile = step([mm(10**12)], 0.1, trained=False)

    assert mfu(profile) == pytest.approx(2e13 / 312e12)
    assert "forward only" in said(profile)["MFU"]
    assert "HFU" not in said(profile)


def test_work_that_no_op_row_accounts_for_runs_in_the_profiles_dtype():
    profile = step([mm(10**12)])
    bare = replace(profile, root=replace(profile.root, ops=()), environment=Environment(dtype="bfloat16"))

    assert mfu(bare) == mfu(profile)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"peak_flops": {}}, "the peak of Imaginary X1 in bfloat16 is not known"),
        ({"peak_flops": {"float16": 1e12}}, "the peak of Imaginary X1 in bfloat16 is not known"),
        ({"timing": Timing()}, "no step was timed"),
        ({"root": Node("", "model", "Empty")}, "no matrix work was counted"),
    ],
)
def test_what_is_not_known_gives_none_and_a_reason(change, why):
    profile = replace(step([mm(10**12)], environment=Environment(device_name="Imaginary X1")), **change)

    assert (mfu(profile), hfu(profile), mfu_causal(profile)) == (None, None, None)
    assert why in why_unknown(profile)
    assert any(why in doubt for doubt in caveats(profile)) or not profile.timing.forward


def test_one_op_in_a_dtype_without_a_peak_makes_the_whole_unknown():
    assert mfu(step([mm(10**12), mm(1, dtype="float64")])) is None


def test_an_unrecorded_dtype_makes_the_whole_unknown():
    profile = step([mm(10**12, dtype="")])

    assert mfu(profile) is None
    assert "dtype" in why_unknown(profile)


def test_flops_per_token_and_achieved_rate():
    profile = taking(gpt_step(4, layers=2, width=64, seq=128, vocab=100), 0.5)
    per_token = 6 * (12 * 2 * 64**2 + 100 * 64) + 12 * 2 * 64 * 128  # 6N + 12 L d s

    assert flops_per_token(profile) == per_token
    assert achieved(profile) == per_token * 4 * 128 / 0.5
    assert flops_per_token(replace(profile, tokens=None)) is None


def test_the_convention_stands_beside_the_number():
    profile = gpt_step(100, layers=12, width=768, seq=1024, vocab=50257, checkpointed=True)
    profile = replace(taking(profile, 0.755), environment=Environment(device_name="NVIDIA A100-SXM4-40GB"))

    page = said(profile)

    assert page["MFU"].startswith("of 312 TFLOP/s in bfloat16, NVIDIA A100-SXM4-40GB; forward + backward")
    assert "no recompute" in page["MFU"]
    assert "2.0x its forward" in page["MFU"]
    assert "masked half left out" in page["MFU, causal"]
    assert "checkpointing" in page["HFU"]
    assert mfu(profile) == pytest.approx(0.371, abs=5e-4)


def test_more_than_the_peak_is_called_out():
    assert any(said.startswith("MFU is above 100%") for said in caveats(step([mm(10**15)])))
    assert not any(said.startswith("MFU is above 100%") for said in caveats(step([mm(10**12)])))


def test_utilization_survives_the_store():
    profile = gpt_step(8, layers=2, width=64, seq=128, vocab=100, checkpointed=True)

    again = store.loads(store.dumps(profile))

    assert again == profile
    assert (again.mfu, again.hfu) == (mfu(profile), hfu(profile))
