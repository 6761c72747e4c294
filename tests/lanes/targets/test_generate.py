"""Prefill and decode against closed forms: Llama, T5, Whisper, Mamba; static and dynamic caches, on meta and real."""

import pytest
import torch

import flopsight
from flopsight import cli, units
from flopsight.errors import InputError
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target


def generated(name, shape, new_tokens, meta=True, **options):
    target = load_target(f"hf:{name}", parse_inputs([shape] if shape else []), meta=meta, generates=True)
    prompt = target.kwargs[target.model.main_input_name]
    return flopsight.generation(target.model.eval(), prompt, new_tokens, **options)


def llama_macs(position, *, hidden, keys, inner, layers, vocabulary):
    """One token after `position` others: it attends to all of them and to itself."""
    layer = 2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * inner
    return layers * (layer + 2 * (position + 1) * hidden) + hidden * vocabulary


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_decoding_at_position_4096_of_llama_8b_is_the_closed_form(cache):
    made = generated("llama-3.1-8b", "1x4096", 1, cache=cache)

    sizes = dict(hidden=4096, keys=1024, inner=14336, layers=32, vocabulary=128256)
    assert made.macs_per_token == llama_macs(4096, **sizes)
    assert made.cache_bytes == 2 * 32 * 1024 * 2 * 4097  # keys and values of 32 layers in bfloat16
    assert made.cache_bytes_per_token == 2 * 32 * 1024 * 2


def test_each_token_attends_to_one_more_where_the_cache_grows():
    made = generated("llama-3.1-8b:num_hidden_layers=2", "3x64", 4)

    sizes = dict(hidden=4096, keys=1024, inner=14336, layers=2, vocabulary=128256)
    assert made.decode.macs == 3 * sum(llama_macs(position, **sizes) for position in range(64, 68))
    assert made.decode.tokens == 3 * 4


def test_the_prompt_costs_its_forward_and_one_row_of_the_vocabulary():
    made = generated("llama-3.1-8b:num_hidden_layers=2", "3x64", 1)

    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert made.prefill.macs == 3 * (2 * (64 * layer + 2 * 64 * 64 * 4096) + 4096 * 128256)


def test_a_window_keeps_no_more_keys_than_it_sees():
    """Gemma 3 1B: 26 layers, every sixth of them full; a window of 512, of which a token sees 511 and itself."""
    made = generated("gemma-3-1b", "1x600", 1)

    full, windowed = 4, 22
    assert made.cache_bytes == 2 * 256 * 2 * (full * 601 + windowed * 511)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize(("prompt", "layers"), [(100, 26), (600, 4)])
def test_a_window_that_is_full_keeps_nothing_of_one_more_token(prompt, layers, cache):
    """Gemma 3 1B at batch 2: all of its 26 layers keep the token while it is in the window of 512, the 4 full ones always."""
    made = generated("gemma-3-1b", f"2x{prompt}", 2, cache=cache)

    assert made.cache_bytes_per_token == 2 * 256 * 2 * layers


def test_a_static_window_that_fills_up_keeps_the_tokens_until_then():
    """510 tokens of prompt and 4 new ones: a window of 512 has place for 2 of these."""
    made = generated("gemma-3-1b", "1x510", 4, cache="static")

    assert made.cache_bytes_per_token == 2 * 256 * 2 * (4 * 4 + 22 * 2) / 4


def test_a_token_of_mixtral_reads_two_of_eight_experts():
    """All weights but the table of embeddings and six experts of each layer; their bytes at full bandwidth are the least time."""
    made = generated("mixtral-8x7b", "1x16", 2)

    hidden, inner, layers, vocabulary = 4096, 14336, 32, 32000
    expert = 3 * hidden * inner
    attention = 2 * hidden * hidden + 2 * hidden * 1024
    layer = attention + 8 * hidden + 2 * hidden + 2 * expert
    weights = layers * layer + hidden + vocabulary * hidden
    assert made.decode.params == weights + layers * 6 * expert + vocabulary * hidden
    assert made.decode.active_params == weights + vocabulary * hidden
    assert made.decode.root.read_param_bytes == 2 * (weights + hidden)  # one row of the table
    least = 2 * 2 * weights / 3.35e12  # two steps on an H100 SXM5
    assert least < made.decode.limit("h100-sxm") < 1.01 * least


def test_the_page_names_steps_and_tokens_apart():
    small = "llama:hidden_size=64,intermediate_size=128,num_hidden_layers=2,num_attention_heads=4,vocab_size=100"

    made = generated(small, "4x8", 3, meta=False, repeats=1)

    lines = str(made).splitlines()
    head = next(line for line in lines if "per step" in line)
    assert head.split("  ")[-2:] == ["per step", "per token"]
    cells = {line.split("  ")[0]: line.split() for line in lines[lines.index(head) :]}
    assert cells["tokens"] == ["tokens", "32", "12", "4", "1"]
    seconds = made.decode_time.median
    assert cells["time, measured"][-4:] == [*units.seconds(seconds / 3).split(), *units.seconds(seconds / 12).split()]
    assert f"measured {units.seconds(seconds / 3)} a step, which makes one token of each of the 4 sequences" in str(
        made
    )


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_real_model_is_timed_and_costs_what_its_twin_costs(cache):
    small = "llama:hidden_size=64,intermediate_size=128,num_hidden_layers=2,num_attention_heads=4,vocab_size=100"

    real = generated(small, "2x32", 3, meta=False, cache=cache, repeats=1)
    twin = generated(small, "2x32", 3, cache=cache)

    assert (real.prefill.macs, real.decode.macs, real.cache_bytes) == (
        twin.prefill.macs,
        twin.decode.macs,
        twin.cache_bytes,
    )
    assert real.decode_tokens_per_second > 0
    assert twin.decode_tokens_per_second is None
    assert torch.is_grad_enabled()


def t5_decoder_macs(length, encoded, *, width=512, inner=2048, layers=6, vocabulary=32128):
    """One token that attends to `length` tokens, itself included, and to what was encoded, whose keys are there already."""
    layer = 6 * width * width + 2 * width * inner + 2 * (length + encoded) * width
    return layers * layer + width * vocabulary


@pytest.mark.parametrize("meta", [True, False])
def test_an_encoder_is_prefill_and_each_new_token_a_forward_of_the_decoder(meta):
    """T5 small: 6 layers of width 512 on either side; the decoder's first token goes with the encoder."""
    made = generated("t5", "2x64", 3, meta=meta, latency=False)

    assert made.decode.macs == 2 * sum(t5_decoder_macs(length, 64) for length in (2, 3, 4))
    encoder = 6 * (64 * (4 * 512 * 512 + 2 * 512 * 2048) + 2 * 64 * 64 * 512)
    keys_of_encoded = 6 * 64 * 2 * 512 * 512
    assert made.prefill.macs == 2 * (encoder + keys_of_encoded + t5_decoder_macs(1, 64))
    assert made.cache_bytes == 2 * (2 * 6 * 512 * 4) * (64 + 1 + 3)
    assert made.cache_bytes_per_token == 2 * 6 * 512 * 4
    assert (made.batch, made.prompt) == (2, 64)


def test_a_static_cache_of_an_encoder_decoder_attends_to_its_full_length():
    made = generated("t5", "1x64", 3, cache="static")

    assert made.decode.macs == 3 * t5_decoder_macs(4, 64)
    assert made.cache_bytes == made.prompt_cache_bytes == (2 * 6 * 512 * 4) * (64 + 4)
    assert made.cache_bytes_per_token == 2 * 6 * 512 * 4


def test_sound_is_encoded_once():
    """Whisper tiny: 3,000 frames become 1,500 positions; 4 layers of width 384."""
    made = generated("whisper-tiny", "", 2)

    assert made.prompt == 1500
    assert made.cache_bytes == (2 * 4 * 384 * 4) * (1500 + 1 + 2)
    layer = 6 * 384 * 384 + 2 * 384 * 1536
    assert made.decode.macs == sum(4 * (layer + 2 * (n + 1500) * 384) + 384 * 51865 for n in (2, 3))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_state_space_model_keeps_a_state_that_does_not_grow(cache):
    """Mamba with 2 layers: width 768, inner 1,536, state 16, kernel 4, steps of rank 48."""
    short, long = (generated("mamba:num_hidden_layers=2", shape, 3, cache=cache) for shape in ("2x16", "2x64"))

    inner, state, kernel, rank = 1536, 16, 4, 48
    state_bytes = 2 * 2 * inner * (kernel + state) * 4
    assert long.cache_bytes == long.prompt_cache_bytes == short.cache_bytes == state_bytes
    assert long.cache_bytes_per_token == 0
    mixer = 768 * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * state + inner * 768
    convolution = 2 * inner * kernel  # transformers keeps one position more than the kernel sees, so it runs twice
    assert long.decode.macs == short.decode.macs == 2 * 3 * (2 * (mixer + convolution) + 768 * 50280)
    assert "state" in str(long)


def test_the_command_saves_a_generation_that_show_opens(tmp_path, capsys):
    saved = tmp_path / "g.json"

    code = cli.main(["profile", "hf:gpt2", "--meta", "-i", "1x128", "--generate", "2", "-o", str(saved)])

    out = capsys.readouterr().out
    assert code == 0
    assert "1 x 128 tokens of prompt, 2 new, dynamic cache" in out
    made = flopsight.load(saved)
    blocks = 12 * 12 * 768 * 768
    assert made.prefill.macs == 128 * blocks + 12 * 2 * 128 * 128 * 768 + 768 * 50257
    assert made.decode.macs == 2 * (blocks + 768 * 50257) + 12 * 2 * (129 + 130) * 768
    assert cli.main(["show", str(saved)]) == 0
    assert capsys.readouterr().out == out


def test_what_cannot_generate_is_one_sentence():
    with pytest.raises(InputError, match="BertModel cannot generate token by token"):
        generated("bert-base", "1x8", 1)
    with pytest.raises(InputError, match="RwkvForCausalLM cannot generate.* past_key_values or cache_params"):
        generated("rwkv:num_hidden_layers=1", "1x8", 1)
    with pytest.raises(InputError, match="cache must be 'dynamic' or 'static', not 'big'"):
        generated("gpt2", "1x8", 1, cache="big")


def test_a_sweep_of_a_preset_has_exact_growth():
    s = flopsight.sweep("hf:llama-3.1-8b:num_hidden_layers=1", {"seq": [512, 1024, 2048], "batch": [1]})

    growth = s.growth("seq")
    assert all(part.exact for part in growth.values())
    assert growth["model.layers.*.mlp.up_proj"].linear == pytest.approx(2 * 2048 * 4096 * 14336)
    # two products of 4096, and for each score of 32 heads the causal mask and a softmax of 5
    assert growth["model.layers.*.self_attn"].quadratic == pytest.approx(2048 * 2048 * (2 * 2 * 4096 + 32 * (1 + 5)))


def test_layers_of_a_preset_are_an_axis():
    s = flopsight.sweep("hf:gpt2", {"layers": [2, 4]}, inputs="1x16")

    block = 12 * 768 * 768 + 13 * 768
    assert s.rows[1]["params"] - s.rows[0]["params"] == 2 * block
