"""Prefill and decode of decoders, against the closed form of a Llama; static and dynamic caches, on meta and real."""

import pytest
import torch

import flopsight
from flopsight import cli
from flopsight.errors import InputError
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target


def generated(name, shape, new_tokens, meta=True, **options):
    target = load_target(f"hf:{name}", parse_inputs([shape]), meta=meta)
    return flopsight.generation(target.model.eval(), target.kwargs["input_ids"], new_tokens, **options)


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


def test_the_command_shows_both_parts_and_saves_them(tmp_path, capsys):
    saved = tmp_path / "p.json"

    code = cli.main(["profile", "hf:gpt2", "--meta", "-i", "1x128", "--generate", "2", "-o", str(saved)])

    out = capsys.readouterr().out
    assert code == 0
    assert "1 x 128 tokens of prompt, 2 new, dynamic cache" in out
    blocks = 12 * 12 * 768 * 768
    assert flopsight.load(tmp_path / "p.prefill.json").macs == 128 * blocks + 12 * 2 * 128 * 128 * 768 + 768 * 50257
    assert flopsight.load(tmp_path / "p.decode.json").macs == 2 * (blocks + 768 * 50257) + 12 * 2 * (129 + 130) * 768


def test_what_cannot_generate_is_one_sentence():
    with pytest.raises(InputError, match="BertModel cannot generate token by token"):
        generated("bert-base", "1x8", 1)
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
