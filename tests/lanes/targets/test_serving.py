"""What serving takes, against closed forms: weights read, cache, MACs at three places; Llama, Mixtral, DeepSeek, Gemma, T5, Mamba, GPT-2."""

import re

import pytest
import torch
from docs import pages

import flopsight
from flopsight import cli, units
from flopsight.errors import InputError
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target

FLOAT = 4
LLAMA = "llama:hidden_size=64,intermediate_size=96,num_hidden_layers=2,num_attention_heads=4,num_key_value_heads=2,vocab_size=100"
MIXTRAL = "mixtral" + LLAMA.removeprefix("llama") + ",num_local_experts=8,num_experts_per_tok=2"
DEEPSEEK = (
    "deepseek_v3:hidden_size=64,intermediate_size=96,moe_intermediate_size=32,num_hidden_layers=3,first_k_dense_replace=1,"
    "num_attention_heads=4,num_key_value_heads=4,q_lora_rank=24,kv_lora_rank=16,qk_rope_head_dim=8,qk_nope_head_dim=12,"
    "v_head_dim=20,n_routed_experts=8,num_experts_per_tok=2,n_shared_experts=1,n_group=1,topk_group=1,vocab_size=100"
)
GEMMA = (
    "gemma3_text:hidden_size=64,intermediate_size=96,num_hidden_layers=6,num_attention_heads=4,num_key_value_heads=1,head_dim=32,"
    "sliding_window=24,vocab_size=100"
)
T5 = "t5:d_model=64,d_kv=16,num_heads=4,d_ff=96,num_layers=2,num_decoder_layers=2,vocab_size=100"
MAMBA = "mamba:hidden_size=64,num_hidden_layers=2,state_size=8,vocab_size=100,time_step_rank=4"
GPT2 = "gpt2:n_embd=64,n_layer=2,n_head=4,vocab_size=100,n_positions=128"
BATCH, PROMPT, NEW = 3, 16, 9


def served(name, batch=BATCH, prompt=PROMPT, new_tokens=NEW, **options):
    return flopsight.generation(f"hf:{name}", new_tokens=new_tokens, input_shape=(batch, prompt), **options)


def macs_at_three_places(made):
    return [made.first.macs, made.middle.macs, made.last.macs]


def places(seen=PROMPT, new=NEW):
    """Tokens that the first, the middle and the last new token attend to, themselves included."""
    return [seen + 1, seen + 1 + (new - 1) // 2, seen + new]


HIDDEN, INNER, KEYS, VOCABULARY, LAYERS = 64, 96, 32, 100, 2
ATTENTION = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * KEYS
MLP = 3 * HIDDEN * INNER
HEAD = HIDDEN * VOCABULARY


def test_llama():
    made = served(LLAMA)

    assert macs_at_three_places(made) == [
        BATCH * (LAYERS * (ATTENTION + MLP + 2 * length * HIDDEN) + HEAD) for length in places()
    ]
    norms = (2 * LAYERS + 1) * HIDDEN
    assert made.weight_bytes == FLOAT * (LAYERS * (ATTENTION + MLP) + norms + HEAD + BATCH * HIDDEN)
    token = LAYERS * 2 * KEYS * FLOAT
    assert made.cache_bytes_per_token == token
    assert made.cache_bytes == BATCH * (PROMPT + NEW) * token


def test_a_batch_of_mixtral_reads_the_experts_that_it_is_expected_to_choose():
    made = served(MIXTRAL)

    router = HIDDEN * 8
    assert macs_at_three_places(made) == [
        BATCH * (LAYERS * (ATTENTION + router + 2 * MLP + 2 * length * HIDDEN) + HEAD) for length in places()
    ]
    chosen = 8 * (1 - (1 - 2 / 8) ** BATCH)
    assert chosen == 4.625
    norms = (2 * LAYERS + 1) * HIDDEN
    weights = LAYERS * (ATTENTION + router + chosen * MLP) + norms + HEAD + BATCH * HIDDEN
    assert made.weight_bytes == pytest.approx(FLOAT * weights, rel=1e-12)
    assert made.active_params == LAYERS * (ATTENTION + router + 2 * MLP) + norms + HEAD + VOCABULARY * HIDDEN
    assert "if all experts are equally likely" in str(made)


def test_deepseek_keeps_a_latent_and_expands_it_in_every_step():
    made = served(DEEPSEEK)

    heads, nope, rope, value, q_rank, kv_rank, inner = 4, 12, 8, 20, 24, 16, 32
    layers = 3
    projected = HIDDEN * q_rank + q_rank * heads * (nope + rope) + HIDDEN * (kv_rank + rope) + heads * value * HIDDEN
    expand = kv_rank * heads * (nope + value)
    expert, router = 3 * HIDDEN * inner, 8 * HIDDEN
    dense, mixture = MLP, router + 3 * expert  # two that are chosen and one that all tokens share
    assert macs_at_three_places(made) == [
        BATCH
        * (layers * (projected + length * expand + length * heads * (nope + rope + value)) + dense + 2 * mixture + HEAD)
        for length in places()
    ]
    half = 2  # its configuration says bfloat16
    token = layers * (kv_rank + rope) * half
    assert made.cache_bytes_per_token == token
    assert made.cache_bytes == BATCH * (PROMPT + NEW) * token
    chosen = 8 * (1 - (1 - 2 / 8) ** BATCH)
    norms = layers * (2 * HIDDEN + q_rank + kv_rank) + HIDDEN
    weights = layers * (projected + expand) + dense + 2 * (router + expert + chosen * expert) + norms + HEAD
    assert made.weight_bytes == pytest.approx(half * (weights + BATCH * HIDDEN), rel=1e-12)
    least = made.serving("h100-sxm").step_load().pieces["model.layers.0.self_attn.kv_b_proj"]
    assert sum(least.macs.values()) == expand  # not once for every token of the cache
    assert "kv_b_proj multiplies all tokens of the cache again" in str(made)


def test_gemma_attends_to_its_window_in_five_of_six_layers():
    """The window of 24 fills up while the tokens 17 to 25 are decoded: the work is not on one line, and its sum is still exact."""
    made = served(GEMMA)

    width = 4 * 32
    layer = 2 * HIDDEN * width + 2 * HIDDEN * 32 + 3 * HIDDEN * INNER

    def macs(length):
        return BATCH * (6 * layer + 2 * width * (length + 5 * min(length, 24)) + HEAD)

    assert macs_at_three_places(made) == [macs(length) for length in places()]
    assert made.decode.macs == sum(macs(length) for length in range(PROMPT + 1, PROMPT + NEW + 1))
    token = 2 * 32 * FLOAT
    assert made.cache_bytes == BATCH * token * (25 + 5 * 23)  # the next token is in the window too
    norms = 6 * (4 * HIDDEN + 2 * 32) + HIDDEN
    assert made.weight_bytes == FLOAT * (6 * layer + norms + HEAD)  # the head is the table


WINDOWED = LLAMA.replace("llama:", "mistral:") + ",head_dim=16,sliding_window=24,dtype=bfloat16"
SINKS = LLAMA.replace("llama:", "gpt_oss:") + ",head_dim=16,sliding_window=24,num_local_experts=8,num_experts_per_tok=2"


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize(("name", "windows"), [(LLAMA, 0), (WINDOWED, 2), (SINKS, 1)])
def test_the_first_token_needs_the_pairs_that_masks_let_through(name, windows, cache):
    """All pairs are counted, as the model multiplies them; the least time leaves out those that a kernel need not do."""
    made = served(name, prompt=60, cache=cache)

    causal, window = 60 * 61 // 2, 24 * 25 // 2 + 36 * 24
    pieces = made.serving("h100-sxm").prefill_load.pieces.items()
    attention = [piece for path, piece in pieces if path == "<cache>" or path.endswith("self_attn")]
    pairs = windows * window + (LAYERS - windows) * causal
    assert sum(sum(piece.macs.values()) for piece in attention) == pytest.approx(2 * HIDDEN * pairs)


@pytest.mark.parametrize("batch", [3, 4, 8])
def test_biases_of_experts_are_chosen_with_them(batch):
    """Four sequences of two choices are as many rows as there are experts: a bias has the shape of the rows."""
    made = served(SINKS, batch=batch)

    expert, chosen = MLP + 2 * INNER + HIDDEN, 8 * (1 - (1 - 2 / 8) ** batch)
    biases, sinks, router, norms = 2 * HIDDEN + 2 * KEYS, 4, 8 * HIDDEN + 8, (2 * LAYERS + 1) * HIDDEN
    always = LAYERS * (ATTENTION + biases + sinks + router) + norms + HEAD
    assert made.active_params == always + LAYERS * 2 * expert + HEAD
    size = made.prefill.root.param_bytes // made.prefill.params
    assert made.weight_bytes == pytest.approx(size * (always + LAYERS * chosen * expert + batch * HIDDEN), rel=1e-12)


def test_t5_reads_no_weight_of_its_encoder_while_it_decodes():
    made = served(T5)

    layer = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER  # keys of what was encoded are there
    assert macs_at_three_places(made) == [
        BATCH * (2 * (layer + 2 * HIDDEN * (length + PROMPT)) + HEAD) for length in places(seen=1)
    ]
    norms, buckets = (2 * 3 + 1) * HIDDEN, 32 * 4
    low, high = FLOAT * (2 * layer + norms + HEAD), FLOAT * (2 * layer + norms + HEAD + buckets)
    assert low <= made.weight_bytes <= high
    token = 2 * 2 * HIDDEN * FLOAT
    assert made.cache_bytes == BATCH * token * (1 + NEW + PROMPT)
    assert made.cache_bytes_per_token == token


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_decoder_deeper_than_its_encoder_keeps_a_cache_in_every_layer(cache):
    made = served(T5.replace("num_decoder_layers=2", "num_decoder_layers=3"), cache=cache)

    layer = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER
    own = 1 + NEW  # the tokens that its last step attends to, or all places of a static cache
    assert made.last.macs == BATCH * (3 * (layer + 2 * HIDDEN * (own + PROMPT)) + HEAD)
    assert made.cache_bytes == BATCH * 3 * 2 * HIDDEN * FLOAT * (own + PROMPT)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize(
    ("name", "batch", "prompt"), [(LLAMA, 8, 100), (GPT2, 8, 100), ("llama-3.1-8b:num_hidden_layers=4", 2, 40)]
)
def test_the_cache_in_the_peak_is_the_closed_form(name, batch, prompt, cache):
    """A layer of a dynamic cache is there twice while it is copied: the copy comes and goes, so it is apart."""
    made = served(name, batch=batch, prompt=prompt, cache=cache)

    token = {LLAMA: 2 * 2 * KEYS * FLOAT, GPT2: 2 * 2 * HIDDEN * FLOAT}.get(name, 4 * 2 * 1024 * 2)
    assert made.last.at_peak["kv cache"] == batch * (prompt + NEW) * token
    assert sum(made.last.at_peak.values()) == made.last.peak_bytes


def test_mamba_costs_the_same_at_every_place_and_moves_its_state():
    made = served(MAMBA)

    inner, state, kernel, rank = 2 * HIDDEN, 8, 4, 4
    mixer = HIDDEN * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * state + inner * HIDDEN
    convolution = 2 * inner * kernel  # transformers keeps one position more than the kernel sees, so it runs twice
    assert macs_at_three_places(made) == 3 * [BATCH * (2 * (mixer + convolution) + HEAD)]
    kept = 2 * inner * (kernel + state) * FLOAT
    assert made.kv.state_bytes == kept
    assert made.serving().step_load().cache_bytes(BATCH) == 2 * BATCH * kept  # read and written
    assert made.cache_bytes_per_token == 0


def test_gpt2_reads_its_table_once_as_its_head():
    made = served(GPT2)

    layer = 12 * HIDDEN * HIDDEN
    assert macs_at_three_places(made) == [BATCH * (2 * (layer + 2 * length * HIDDEN) + HEAD) for length in places()]
    biases = 2 * (3 + 1 + 4 + 1) * HIDDEN
    norms = (2 * 2 + 1) * 2 * HIDDEN
    assert made.weight_bytes == pytest.approx(
        FLOAT * (2 * layer + biases + norms + HEAD + BATCH * HIDDEN), abs=3 * FLOAT * HIDDEN
    )
    assert made.cache_bytes_per_token == 2 * 2 * HIDDEN * FLOAT


def test_a_prompt_past_the_table_of_positions_is_one_sentence():
    with pytest.raises(
        InputError,
        match="GPT2LMHeadModel has a table of 128 positions, and input_ids of 120 tokens and 9 new ones read past its end. "
        "Give at most 128 tokens in all,",
    ):
        served(GPT2, batch=1, prompt=120, new_tokens=9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"input_ids": [[1, 2]]}, "input_ids is a tensor of token ids, batch x tokens, not list"),
        ({"input_ids": torch.ones(4, dtype=torch.int64)}, "The prompts are 4 int64: token ids are batch x tokens"),
        ({"input_ids": torch.ones(1, 4)}, "The prompts are 1x4 float32: token ids are batch x tokens"),
        ({"input_shape": "1x8"}, "input_shape is the size of the prompts, like (1, 512), not '1x8'"),
        ({"input_shape": 8}, "input_shape is the size of the prompts, like (1, 512), not 8"),
        ({"input_shape": (1, -8)}, "Every number of input_shape must be a whole number, 0 or more, not -8"),
        ({"input_shape": (1, 8), "weights": 8}, "Weights cannot be packed as 8"),
        ({"input_shape": (1, 8), "acceptance": 0.5}, "acceptance is the chance that a token of a draft is accepted"),
    ],
)
def test_bad_input_is_one_sentence(options, said):
    with pytest.raises(InputError, match=re.escape(said)):
        flopsight.generation(f"hf:{LLAMA}", new_tokens=2, **options)


@pytest.mark.parametrize("size", ["1x0", "0x4"])
def test_an_empty_prompt_is_one_sentence(size, capsys):
    with pytest.raises(
        InputError, match=f"The prompts are {size}: a generation needs at least one sequence of one token"
    ):
        served(LLAMA, batch=int(size[0]), prompt=int(size[2]))
    assert cli.main(["profile", f"hf:{LLAMA}", "--meta", "-i", size, "--generate", "4"]) == 2
    assert capsys.readouterr().err.startswith(f"flopsight: The prompts are {size}")


def test_a_batch_that_does_not_fit_is_told_the_largest_that_does():
    made = served("llama-3.1-8b:num_hidden_layers=4", batch=200, prompt=4096, new_tokens=8)

    largest = made.largest_batch("h100-sxm")
    assert 1 < largest < 200
    assert f"fits         no: {units.size(made.serving().peak)} at the peak" in made.render(on="h100-sxm")
    assert f"a batch of {largest:,} fits" in made.render(on="h100-sxm", width=300)


def test_weights_that_do_not_fit_name_the_plan_of_more_devices():
    made = served("llama-3.1-70b", batch=1, new_tokens=1)

    said = made.render(on="h100-sxm", width=500)
    assert 2 * 80 * 2**30 > made.serving().lasting > 80 * 2**30
    assert "divide them over 2 devices or more (flopsight plan TARGET --serve --gpus 2), or pack them" in said
    with pytest.raises(InputError, match="A device is named by its text, like 'h100-sxm', not 5"):
        made.first_token(5)


def test_a_generation_is_saved_and_opened_as_it_was(tmp_path):
    made = served(MIXTRAL)

    assert flopsight.load(made.save(tmp_path / "g.json")) == made
    page = made.to_html(tmp_path / "g.html", on="h100-sxm").read_text()
    assert "MixtralForCausalLM: 3 x 16 tokens of prompt" in page


def test_the_least_time_of_a_step_is_its_bytes_over_the_bandwidth():
    """Llama 3.1 8B in bfloat16 on an H100 SXM5: 3.35 TB/s and 989.4 TFLOP/s."""
    made = served("llama-3.1-8b", batch=8, prompt=1024, new_tokens=3)

    attention, mlp, head = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336, 4096 * 128256
    weights = 2 * (32 * (attention + mlp + 2 * 4096) + 4096 + head + 8 * 4096)
    token = 2 * 32 * 2 * 1024
    least = [(weights + 8 * token * (seen + 1)) / 3.35e12 for seen in (1024, 1025, 1026)]
    found = [made.per_output_token("h100-sxm", at) for at in ("first", "middle", "last", "mean")]
    assert found == pytest.approx([*least, least[1]], rel=1e-9)
    assert made.tokens_per_second("h100-sxm") == pytest.approx(8 / least[1], rel=1e-9)


def test_compute_binds_a_short_decode_from_the_ridge_on():
    """989.4e12 / 3.35e12 = 295 FLOPs a byte; a weight of two bytes takes two FLOPs a sequence. The cache puts it off."""
    made = served("llama-3.1-8b:num_hidden_layers=2,vocab_size=1024", batch=1, prompt=8, new_tokens=1)

    assert made.serving("h100-sxm").weights_crossover in (295, 296)
    assert 295 <= made.crossover_batch("h100-sxm") < 320
    long = served("llama-3.1-8b:num_hidden_layers=2,vocab_size=1024", batch=1, prompt=32768, new_tokens=1)
    assert long.crossover_batch("h100-sxm") is None


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["llama-3.1-8b:num_hidden_layers=4", MIXTRAL, DEEPSEEK, GEMMA, T5, MAMBA, GPT2])
def test_the_largest_batch_fits_and_one_more_does_not(name, cache):
    """Counted again at that batch: rotary tables, biases and masks, which sequences share, do not grow with it."""
    batch = served(name, batch=1, prompt=40, cache=cache).largest_batch("h100-sxm")

    fits, more = (
        served(name, batch=size, prompt=40, cache=cache).serving("h100-sxm").peak for size in (batch, batch + 1)
    )
    assert fits <= 80 * 2**30 < more


@pytest.mark.parametrize("name", ["llama-3.1-8b:num_hidden_layers=4", f"{MIXTRAL},max_position_embeddings=1000000", T5])
def test_the_longest_context_fits_and_one_more_does_not(name):
    """Counted again with that prompt; of the two small models scores of all pairs are made, which a short prompt does not show."""
    context = served(name, batch=32, prompt=40).longest_context("h100-sxm")

    fits, more = (
        served(name, batch=32, prompt=tokens - NEW).serving("h100-sxm").peak for tokens in (context, context + 1)
    )
    assert fits <= 80 * 2**30 * 1.001  # T5's table of positions is in no line
    assert more > 80 * 2**30 * 0.999


def test_all_positions_of_a_model_are_its_longest_context():
    assert served("llama-3.1-8b:num_hidden_layers=4", batch=1).longest_context("h100-sxm") == 131072


def test_scores_of_all_pairs_end_the_context_earlier():
    target = load_target("hf:llama-3.1-8b:num_hidden_layers=2", parse_inputs(["4x2048"]), meta=True, generates=True)
    target.model.set_attn_implementation("eager")

    def counted(prompt):
        ids = torch.ones(4, prompt, dtype=torch.int64, device="meta")
        return flopsight.generation(target.model.eval(), ids, 4)

    context = counted(2048).longest_context("h100-sxm")
    memory = 80 * 2**30
    assert 4 * 32 * context * context * 2 < memory  # 32 heads in bfloat16, once
    assert counted(context - 4).serving("h100-sxm").peak == pytest.approx(memory, rel=0.02)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", [LLAMA, MIXTRAL, DEEPSEEK, GEMMA, T5, MAMBA, GPT2])
def test_a_real_model_has_the_rows_of_its_twin(name, cache):
    target = load_target(f"hf:{name}", parse_inputs([f"2x{PROMPT}"]), meta=False, generates=True)

    real = flopsight.generation(
        target.model.eval(), torch.ones(2, PROMPT, dtype=torch.int64), NEW, cache=cache, latency=False
    )
    twin = served(name, batch=2, cache=cache)

    assert [step.number for step in real.steps] == [step.number for step in twin.steps]
    for mine, other in zip(
        [real.prefill, *(s.profile for s in real.steps)], [twin.prefill, *(s.profile for s in twin.steps)], strict=True
    ):
        assert rows(mine) == rows(other)
    assert real.kv == twin.kv
    assert real.weight_bytes == pytest.approx(twin.weight_bytes, rel=1e-12)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(("name", "bits", "work"), [("int8", 8, 1), ("int4", 4, 2), ("fp8", 8, 0)])
def test_packed_weights_are_read_as_packed(name, bits, work):
    """Every matrix of a layer; the head and the norms stay. A row has a scale, with int4 its one group of 128 a zero too."""
    plain, made = served(LLAMA), served(LLAMA, weights=name)

    shared = {"int8": 16, "int4": 20, "fp8": 32}[name]
    rows = LAYERS * (2 * HIDDEN + 2 * KEYS + 2 * INNER + HIDDEN)  # q, o; k, v; gate, up; down
    weights = LAYERS * (ATTENTION + MLP)
    assert plain.weight_bytes - made.weight_bytes == FLOAT * weights - (weights * bits + rows * shared) / 8
    assert made.first.flops - plain.first.flops == work * weights
    assert made.cache_bytes == plain.cache_bytes
    assert f"packed as {name}" in str(made)


def test_coefficients_of_a_state_space_model_are_not_packed():
    """A matrix of `inner x state` is raised to a power, not multiplied with; four products of a mixer are packed."""
    plain, made = served(MAMBA), served(MAMBA, weights="int8")

    inner, state, rank = 2 * HIDDEN, 8, 4
    sides = [(2 * inner, HIDDEN), (rank + 2 * state, inner), (inner, rank), (HIDDEN, inner)]
    spared = sum(FLOAT * rows * width - (rows * width + 2 * rows) for rows, width in sides)
    assert plain.weight_bytes - made.weight_bytes == 2 * spared


def test_packed_experts_are_read_as_they_are_expected_to_be_chosen():
    made = served(MIXTRAL, weights="int8")

    router, chosen, norms = HIDDEN * 8, 8 * (1 - (1 - 2 / 8) ** BATCH), (2 * LAYERS + 1) * HIDDEN
    expert = MLP + 2 * (2 * INNER + HIDDEN)  # bytes: codes, and a scale of 16 bits a row
    attention = ATTENTION + 2 * (2 * HIDDEN + 2 * KEYS)
    packed = LAYERS * (attention + router + 2 * 8 + chosen * expert)
    assert made.weight_bytes == pytest.approx(packed + FLOAT * (norms + HEAD + BATCH * HIDDEN), rel=1e-3)


def test_a_draft_brings_what_its_acceptance_allows(tmp_path):
    target = "hf:llama-3.1-8b:num_hidden_layers=8"
    made = flopsight.generation(
        target,
        input_shape=(1, 64),
        new_tokens=3,
        draft="hf:llama-3.1-8b:num_hidden_layers=1",
        acceptance=0.8,
        draft_length=4,
    )
    alone = flopsight.generation("hf:llama-3.1-8b:num_hidden_layers=1", input_shape=(1, 64), new_tokens=3)

    found = made.speculative("h100-sxm")
    assert found.tokens == pytest.approx(1 + 0.8 + 0.64 + 0.512 + 0.4096)
    assert found.draft == pytest.approx(4 * alone.per_output_token("h100-sxm"))
    token = 2 * 8 * 2 * 1024
    more = 4 * (token + 2 * 4096)  # keys and values, and rows of the table, of four more tokens
    assert found.check == pytest.approx(made.per_output_token("h100-sxm") + more / 3.35e12)
    assert "3.36 tokens in" in made.render(on="h100-sxm", width=500)
    again = flopsight.load(made.save(tmp_path / "g.json"))
    assert again.speculative("h100-sxm") == found
    with pytest.raises(InputError, match="needs the same vocabulary"):
        served(LLAMA, draft="hf:gpt2", acceptance=0.5)


def test_a_sweep_of_generations_says_what_each_generation_says(tmp_path, capsys):
    path = tmp_path / "s.json"
    words = f"sweep hf:{LLAMA} batch=1,64 seq=16,32 --meta --generate {NEW} --on h100-sxm -o {path} -o {tmp_path / 's.html'}"

    assert cli.main(words.split()) == 0
    out = capsys.readouterr().out

    swept = flopsight.load(path)
    alone = served(LLAMA, batch=64, prompt=32)
    row = swept.rows[-1]
    assert row["cache_bytes"] == 64 * (32 + NEW) * LAYERS * 2 * KEYS * FLOAT
    assert row["first_token"] == pytest.approx(alone.first_token("h100-sxm"))
    assert row["per_output_token"] == pytest.approx(alone.per_output_token("h100-sxm"))
    assert row["most_tokens_per_second"] == pytest.approx(alone.tokens_per_second("h100-sxm"))
    assert row["fits"] is True
    assert "step, least" in out
    assert (tmp_path / "s.html").read_text().count("<svg") == 4
    assert cli.main(["show", str(path)]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--weights", "fp8", "--on", "a100-sxm4-80"], "A100 SXM4 80GB has no fp8 products, only"),
        (["--weights", "int3"], "Weights cannot be packed as 'int3'."),
        (["--draft", "hf:gpt2"], "--draft needs the chance"),
        (["--accept", "0.5"], "name the draft"),
    ],
)
def test_what_a_device_lacks_and_what_a_draft_needs_are_one_sentence(capsys, more, said):
    assert cli.main(["profile", f"hf:{LLAMA}", "--meta", "-i", "1x8", "--generate", "2", *more]) == 2
    assert said in capsys.readouterr().err


def test_more_tokens_than_positions_that_are_computed_run_with_a_remark():
    target = "hf:llama:num_hidden_layers=1,hidden_size=64,intermediate_size=64,num_attention_heads=4,vocab_size=100,max_position_embeddings=64"
    said = "Prompt and new tokens are 65, and the model is made for 64 positions"

    within, past = (flopsight.generation(target, input_shape=(1, 60), new_tokens=new) for new in (4, 5))
    plan = flopsight.plan(target, gpus=1, on="h100-sxm", serve=True, prompt=60, new=5)

    assert said in str(past).replace("\n  ", " ")
    assert "positions: it runs" not in str(within).replace("\n  ", " ")
    assert any(said in line for line in plan.best.assumptions)


def test_the_page_about_serving_has_the_values_that_it_says():
    assert pages.run("docs/serving.md") >= 6


def rows(profile):
    """Bytes are those of other kernels: a twin stands for a device, the real model runs on a CPU."""
    return [(node.path, node.calls, node.macs, node.flops) for node in profile.walk()]
