"""Plans of models of transformers: extension against whole counts, memory against the dry run, published runs."""

import json
from pathlib import Path

import pytest

import flopsight
from flopsight.analysis.plan.workload import alive
from flopsight.engine.block_counts import BlockCounts

SMALL = "hidden_size=256,intermediate_size=512,vocab_size=1000"
ARCHITECTURES = {
    f"hf:llama:num_hidden_layers=6,num_attention_heads=8,{SMALL}": 64,
    "hf:gpt2:n_layer=5,n_embd=256,n_head=8,vocab_size=1000": 64,
    f"hf:gemma2:num_hidden_layers=6,{SMALL}": 64,
    f"hf:mixtral:num_hidden_layers=5,{SMALL}": 64,
    "hf:t5": 64,
    "hf:vit": None,
}
"""Alike blocks, fused layers, alternating attention, experts, an encoder with a decoder, images."""


@pytest.mark.parametrize("checkpoint", ["none", "selective", "full"])
@pytest.mark.parametrize(("target", "seq"), ARCHITECTURES.items())
def test_one_and_two_blocks_extended_equal_the_whole_count(target, seq, checkpoint):
    counts = BlockCounts(target, seq=seq, input_shape=None, dtype="bfloat16")

    work, whole = counts.workload(3, checkpoint), counts._counted(3, checkpoint, {})

    for phase in ("forward", "backward", "recompute"):
        assert work.cost(phase) == getattr(whole, phase)
    assert (work.params, work.saved) == (whole.params, whole.activation_bytes)
    assert work.alive == max(alive(whole))


@pytest.mark.parametrize(("checkpoint", "accumulate"), [("none", 1), ("selective", 1), ("full", 2)])
def test_the_memory_of_shards_is_that_of_the_dry_run(checkpoint, accumulate):
    target, mesh, shape = "hf:llama-3.1-8b", {"fsdp": 8}, (1, 4096)

    dry = flopsight.count(
        target, input_shape=shape, train=True, optimizer="adamw", on="meta", mesh=mesh, checkpoint=checkpoint,
        precision="bf16", accumulate=accumulate,
    )  # fmt: skip
    best = flopsight.plan(
        target, gpus=8, on="h100-sxm", seq=4096, mesh=mesh, micro_batch=1, accumulate=accumulate, checkpoint=checkpoint,
        assume={"fragments": 0},
    ).best  # fmt: skip

    assert best.peak_bytes == pytest.approx(dry.peak_bytes, rel=0.01)


def test_published_runs_are_predicted_from_their_meshes():
    import sys

    folder = Path(__file__).parents[3] / "bench"
    sys.path.insert(0, str(folder))
    try:
        import plan as bench
    finally:
        sys.path.remove(str(folder))
    rows = json.loads((folder / "data" / "published_training.json").read_text(encoding="utf-8"))
    chosen = [
        row for row in rows if row["id"] in ("mpt-7b s2048 8xh100-sxm mb6", "titan 8b 8 fsdp", "llama3 405b 8192")
    ]

    outcomes = [bench.outcome_of(row) for row in chosen]

    assert [abs(one.error) < bound for one, bound in zip(outcomes, (0.15, 0.35, 0.25), strict=True)] == [True] * 3
    assert abs(outcomes[1].memory_error) < 0.1


def test_serving_reads_weights_and_cache_once_and_waits_for_its_all_reduces():
    options = {"on": "h100-sxm", "serve": True, "prompt": 2048, "new": 256, "assume": {"latency": 0}}

    one = flopsight.plan("hf:llama-3.1-8b", gpus=1, batch=8, **options).best
    two = flopsight.plan("hf:llama-3.1-8b", gpus=2, mesh={"tp": 2}, batch=8, **options).best

    least = flopsight.generation("hf:llama-3.1-8b", input_shape=(8, 2048), new_tokens=256).per_output_token("h100-sxm")
    reduces = 2 * 32 * (8 * 4096 * 2) / (0.8 * 450e9)
    assert one.parts == pytest.approx({"kernels": least / 0.95}, rel=1e-3), "memory binds a small batch"
    assert two.parts == pytest.approx({"kernels": least / 0.95 / 2, "tensor parallel": reduces}, rel=1e-3)
    assert one.memory["kv cache"] == 8 * (2048 + 256) * 32 * 2 * 8 * 128 * 2 == 2 * two.memory["kv cache"]
    assert one.tokens_per_second_per_gpu == pytest.approx(8 / one.step)
    assert "to the first token" in one.why


def test_serving_that_does_not_fit_says_by_how_much():
    plan = flopsight.plan("hf:llama-3.1-70b", gpus=1, on="h100-sxm", serve=True, prompt=1024, new=16)

    assert not plan.best.fits and "does not fit" in plan.best.why
