"""Plans of models of transformers: extension against whole counts, memory against the dry run, published runs."""

import json
from pathlib import Path

import pytest

import flopsight
from flopsight.analysis.limits.fused import fusable
from flopsight.analysis.plan.workload import alive
from flopsight.analysis.serving import Serving
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


HEADS = "num_attention_heads=8,num_key_value_heads=4"
MIXED = {
    f"hf:gemma3_text:num_hidden_layers=6,head_dim=32,sliding_window=16,{HEADS},{SMALL}": 0,
    f"hf:jamba:num_hidden_layers=6,num_experts=4,{HEADS},{SMALL}": 3 * 4 * 3 * 256 * 512,
    f"hf:deepseek_v3:num_hidden_layers=4,first_k_dense_replace=1,n_routed_experts=8,num_experts_per_tok=2,n_group=1,topk_group=1,moe_intermediate_size=64,{SMALL}": 3
    * 8
    * 3
    * 256
    * 64,
}
"""A layer of another kind that stands there once: by its place, by its class, by its experts; and parameters of all experts."""


@pytest.mark.parametrize(("target", "experts"), MIXED.items())
def test_layers_of_another_kind_are_not_lost(target, experts):
    counts = BlockCounts(target, seq=64, input_shape=None, dtype="bfloat16")

    work, whole = counts.workload(2, "none"), counts._counted(2, "none", {})

    for phase in ("forward", "backward"):
        assert work.cost(phase) == getattr(whole, phase)
    assert (work.params, work.saved, work.experts) == (whole.params, whole.activation_bytes, experts)


def test_ranks_of_experts_alone_hold_all_else_whole():
    """Mixtral's parameters are in experts but for attention, router, norms, embedding and head; 12 bytes of each last."""
    best = flopsight.plan(
        f"hf:mixtral:num_hidden_layers=4,num_local_experts=8,{HEADS},{SMALL}", gpus=4, on="h100-sxm", seq=64, mesh={"ep": 4},
        micro_batch=4, checkpoint="none",
    ).best  # fmt: skip

    experts = 4 * 8 * 3 * 256 * 512
    dense = 4 * (2 * 256 * 256 + 2 * 256 * 128 + 8 * 256 + 2 * 256) + 2 * 1000 * 256 + 256
    assert best.memory["parameters"] == 4 * (dense + experts // 4)
    assert best.memory["optimizer"] == 8 * (dense + experts // 4)


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


DIVIDED = {
    f"hf:llama:num_hidden_layers=3,num_attention_heads=8,num_key_value_heads=4,{SMALL}": "model.layers",
    f"hf:mistral:num_hidden_layers=3,num_attention_heads=8,num_key_value_heads=4,{SMALL}": "model.layers",
    f"hf:qwen2:num_hidden_layers=3,num_attention_heads=8,num_key_value_heads=4,{SMALL}": "model.layers",
    f"hf:qwen3:num_hidden_layers=3,num_attention_heads=8,num_key_value_heads=4,head_dim=32,{SMALL}": "model.layers",
    "hf:gpt2:n_layer=3,n_embd=256,n_head=8,vocab_size=1000": "transformer.h",
}


@pytest.mark.parametrize(("target", "home"), DIVIDED.items())
def test_tensor_parallel_of_a_plan_is_that_of_the_dry_run_inside_the_blocks(target, home):
    """Embedding and head are divided by a plan, as torchtitan and Megatron-LM do, and whole in a dry run."""
    counts = BlockCounts(target, seq=64, input_shape=None, dtype="float32")
    work = counts.workload(2, "none")

    dry = flopsight.count(target, input_shape=(2, 64), train=True, on="meta", mesh={"tp": 4})

    (block,) = work.blocks
    own = [dry[f"{home}.{number}"] for number in range(3)]
    assert [4 * node.forward.macs for node in own] == [block.cost("forward").macs] * 3
    assert _products([block], "backward") > 0
    assert [4 * _products(node.walk(), "backward") for node in own] == [_products([block], "backward")] * 3
    reduced = [row for row in dry.comm if (row.op, row.phase) == ("all_reduce", "forward")]
    assert sum(row.calls for row in reduced) == 2 * work.depth
    assert sum(row.bytes for row in reduced) == 2 * work.depth * work.handed_on == 2 * 3 * (2 * 64 * 256 * 4)


COLUMNS = {"gpt2": 2}
"""Layers of a block that are divided by columns: one of queries, keys and values, one of the feed-forward; else q, k, v, gate and up."""


@pytest.mark.parametrize("target", DIVIDED)
def test_a_dry_run_reduces_a_gradient_for_each_layer_by_columns_and_a_plan_one_for_all(target):
    """Megatron-LM and torchtitan hand one gathered input to all of them, so its gradient is reduced once."""
    dry = flopsight.count(target, input_shape=(2, 64), train=True, on="meta", mesh={"tp": 4})
    best = flopsight.plan(
        target, gpus=4, on="h100-sxm", seq=64, mesh={"tp": 4}, micro_batch=2, checkpoint="none", precision="fp32",
        assume={"latency": 0},
    ).best  # fmt: skip

    hidden = 2 * 64 * 256 * 4
    norms_of_heads = 3 * 2 * 32 * 4 if "qwen3" in target else 0
    columns = COLUMNS.get(target.split(":")[1], 5)
    backward = [row for row in dry.comm if (row.op, row.phase, row.dim) == ("all_reduce", "backward", "tp")]
    assert sum(row.bytes for row in backward) == 3 * columns * hidden + norms_of_heads
    wire = 2 * 3 / 4 * hidden  # of a ring of four
    assert best.parts["tensor parallel"] == pytest.approx(3 * (2 + 2) * wire / (0.8 * 450e9))
    assert best.memory["parameters"] == pytest.approx(dry.whole.params, abs=4), "a quarter of four bytes each"
    blocks = sum(node.params for node in dry.walk() if node.path.rpartition(".")[0] == DIVIDED[target])
    ends = 1000 * 256 + 1024 * 256 + 2 * 256 if "gpt2" in target else 2 * 1000 * 256 + 256
    assert dry.params - blocks == ends, "embedding, head and the last norm are whole"
    assert any("five in a Llama block" in line for line in best.assumptions)


def _products(parts, phase):
    """Work of matrix products; attention's backward runs other kernels on a CPU, which a dry run imitates, than on a GPU."""
    rows = [row for part in parts for row in getattr(part, "ops", None) or getattr(part, "rows", ())]
    return sum(row.cost.macs for row in rows if row.phase == phase and row.op in ("aten.mm", "aten.addmm"))


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


@pytest.mark.parametrize(("target", "chosen"), [("mixtral", 2), ("qwen3_moe", 8), ("ernie4_5_moe", 6)])
def test_tokens_are_exchanged_once_for_every_expert_that_a_router_chooses(target, chosen):
    best = flopsight.plan(
        f"hf:{target}:num_hidden_layers=4,{HEADS},{SMALL}", gpus=4, on="h100-sxm", seq=64, mesh={"ep": 4}, micro_batch=4,
        checkpoint="none", assume={"latency": 0},
    ).best  # fmt: skip

    blocks = 3 if target == "ernie4_5_moe" else 4  # its first layer has no experts
    sent = chosen * 64 * 256 * 2 * 3 / 4  # a sequence of 64 tokens on each rank, in bfloat16
    assert best.parts["expert parallel"] == pytest.approx(blocks * 2 * 2 * sent / (0.8 * 450e9))
    assert any(f"each to {chosen} of them" in line for line in best.assumptions)


def test_serving_reads_weights_and_cache_once_and_waits_for_its_all_reduces():
    options = {"on": "h100-sxm", "serve": True, "prompt": 2048, "new": 256, "assume": {"latency": 0}}

    one = flopsight.plan("hf:llama-3.1-8b", gpus=1, batch=8, **options).best
    two = flopsight.plan("hf:llama-3.1-8b", gpus=2, mesh={"tp": 2}, batch=8, **options).best

    least = flopsight.generation("hf:llama-3.1-8b", input_shape=(8, 2048), new_tokens=256).per_output_token("h100-sxm")
    reduces = 2 * 32 * (8 * 4096 * 2) / (0.8 * 450e9)
    assert one.parts["kernels"] == pytest.approx(least / 0.89, rel=1e-3), "memory binds a small batch"
    assert two.parts["kernels"] == pytest.approx(least / 0.89 / 2, rel=1e-3)
    assert two.parts["tensor parallel"] == pytest.approx(reduces)
    assert one.memory["kv cache"] == 8 * (2048 + 256) * 32 * 2 * 8 * 128 * 2 == 2 * two.memory["kv cache"]
    assert one.tokens_per_second_per_gpu == pytest.approx(8 / one.step)
    assert "to the first token" in one.why
    assert one.first_token > two.first_token > 0


@pytest.mark.parametrize("target", ["hf:llama-3.1-8b", "hf:mixtral-8x7b:num_hidden_layers=4"])
def test_one_sequence_is_predicted_as_on_the_serving_page_and_each_kernel_takes_its_moment_again(target):
    options = {"gpus": 1, "on": "h200-sxm", "serve": True, "prompt": 512, "new": 64, "batch": 1}
    made = flopsight.generation(target, input_shape=(1, 512), new_tokens=64)
    page = Serving(made, "h200-sxm")

    best = flopsight.plan(target, **options).best
    slow = flopsight.plan(target, **options, assume={"kernel": 3e-6}).best

    assert best.step == pytest.approx(page.predicted_step, rel=1e-6)
    assert best.first_token == pytest.approx(page.predicted(made.prefill), rel=1e-6)
    assert page.per_output_token() < best.step
    rows = [row for node in made.first.walk() for row in node.ops if row.cost.flops or row.cost.macs]
    alone, fused = (sum(row.calls for row in rows if fusable(row) == kind) for kind in (False, True))
    assert slow.step - best.step == pytest.approx((alone + fused / 3) * 1e-6, rel=0.01), "shares lie on a curve"


SERVED = {"on": "h100-sxm", "serve": True, "prompt": 128, "new": 16, "batch": 8, "assume": {"latency": 0}}


@pytest.mark.parametrize(("precision", "size"), [("bf16", 2), ("pure-bf16", 2), ("fp32", 4)])
def test_precision_decides_the_bytes_that_are_served(precision, size):
    target = f"hf:llama:num_hidden_layers=3,num_attention_heads=8,num_key_value_heads=4,{SMALL}"

    best = flopsight.plan(target, gpus=2, mesh={"tp": 2}, precision=precision, **SERVED).best

    matrices = 3 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512 + 2 * 256) + 256 + 2 * 256 * 1000
    assert best.memory["parameters"] == pytest.approx(size * matrices / 2, rel=1e-3)
    assert best.memory["kv cache"] == 8 * (128 + 16) * 3 * 2 * 128 * size // 2
    assert best.parts["tensor parallel"] == pytest.approx(2 * 3 * 8 * 256 * size / (0.8 * 450e9))


def test_every_gpu_keeps_the_latent_that_all_heads_share():
    target = "hf:deepseek-v3:num_hidden_layers=4,n_routed_experts=16,n_group=1,topk_group=1"

    one, two = (flopsight.plan(target, gpus=gpus, mesh={"tp": gpus}, **SERVED).best for gpus in (1, 2))

    assert one.memory["kv cache"] == two.memory["kv cache"] == 8 * (128 + 16) * 4 * (512 + 64) * 2
    assert two.memory["parameters"] == one.memory["parameters"] // 2
    mean = 128 + 15 / 2  # tokens before a step
    cache = 8 * 4 * (512 + 64) * 2 * (mean + 1) / (0.89 * 3.35e12)
    assert one.parts["kernels"] - cache == pytest.approx(2 * (two.parts["kernels"] - cache), rel=1e-9)
    assert any("every GPU keeps and reads the whole cache" in line for line in two.assumptions)


def test_model_flops_of_a_latent_cache_are_those_of_the_new_tokens_alone():
    """transformers expands the cache again in every step, which is not the model's work: the share of the peak passed 500 %."""
    target = "hf:deepseek-v3:num_hidden_layers=3,first_k_dense_replace=3"

    best = flopsight.plan(target, gpus=1, **(SERVED | {"prompt": 4096, "new": 1})).best

    queries, latent, values = 7168 * 1536 + 1536 * 128 * 192, 7168 * (512 + 64), 512 * 128 * (128 + 128)
    a_block = queries + latent + values + 128 * 128 * 7168 + 3 * 7168 * 18432
    attention = 4097 * 128 * (192 + 128)  # of one new token: scores over 192 numbers a head, values of 128
    macs = 3 * (a_block + attention) + 7168 * 129280
    assert best.model_flops == pytest.approx(2 * 8 * macs, rel=1e-6)
    assert best.mfu < 1


@pytest.mark.parametrize(
    ("target", "reduces", "hidden"), [("hf:t5", 3 * 6, 512), ("hf:gpt2", 2 * 12, 768), ("hf:gemma-3-4b", 2 * 34, 2560)]
)
def test_a_step_reduces_behind_each_part_of_the_blocks_that_decode(target, reduces, hidden):
    """Not in the six blocks of T5's encoder, nor in the 27 of Gemma's eye; T5 also reads what was encoded."""
    best = flopsight.plan(target, gpus=2, mesh={"tp": 2}, **SERVED).best

    assert best.parts["tensor parallel"] == pytest.approx(reduces * 8 * hidden * 2 / (0.8 * 450e9))


def test_a_model_that_reads_sound_is_not_planned():
    with pytest.raises(flopsight.FlopsightError, match="reads input_features, not a prompt of tokens"):
        flopsight.plan("hf:whisper-tiny", gpus=1, **SERVED)


def test_serving_that_does_not_fit_says_by_how_much():
    plan = flopsight.plan("hf:llama-3.1-70b", gpus=1, on="h100-sxm", serve=True, prompt=1024, new=16)

    assert not plan.best.fits and "does not fit" in plan.best.why
    assert plan.best.why.endswith("not one sequence would fit")


def test_a_batch_that_cannot_be_served_names_the_largest_that_can():
    options = {"gpus": 1, "on": "h100-sxm", "serve": True, "prompt": 4096, "new": 256}
    weights, a_sequence = 2 * 8_030_261_248, (4096 + 256) * 32 * 2 * 8 * 128 * 2

    best = flopsight.plan("hf:llama-3.1-8b", batch=1000, assume={"fragments": 0, "reserved": 0}, **options).best

    passing = best.memory["temporaries"]
    held = int((85_899_345_920 - best.memory["parameters"] - passing) // a_sequence)
    assert best.memory["parameters"] == pytest.approx(weights, rel=1e-6)
    assert best.why.endswith(f"; {held} sequences would fit")


def test_one_page_serves_seventy_billion_on_one_to_eight_gpus(tmp_path):
    plan = flopsight.plan("hf:llama-3.1-70b", gpus=(1, 2, 4, 8), on="h100-sxm", serve=True, prompt=4096, new=64)

    assert plan.sizes == (1, 2, 4, 8)
    assert [plan.best_of(size).fits for size in plan.sizes] == [False, True, True, True], "141 GB of weights"
    page = plan.save(tmp_path / "serving.html").read_text(encoding="utf-8")
    assert "Best of each number of GPUs" in page and "predicted first token" in page
