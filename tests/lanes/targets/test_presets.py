"""Every preset has the parameters that were published for it, to the last one."""

import pytest
import torch

import flopsight
from flopsight import cli
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target
from flopsight.targets.presets import find_preset, preset_names

PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "deepseek-v3": 671_026_404_352,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "phi-4": 14_659_507_200,
    "qwen3-235b-a22b": 235_093_634_560,
    "gpt-oss-120b": 116_829_156_672,
    "vit-l-16": 304_326_632,
}
"""Written a second time: a preset's file is edited more easily than this list."""


def params(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_has_its_published_parameters(name):
    model = load_target(f"hf:{name}", meta=True).model

    assert params(model) == find_preset(name).params == PUBLISHED.get(name, find_preset(name).params)


def test_deepseeks_routing_bias_is_in_buffers():
    """One number for each of 256 experts in the 58 layers that have them; the first 3 are dense."""
    model = load_target("hf:deepseek-v3", meta=True).model

    biases = [buffer.numel() for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")]
    assert biases == [256] * (61 - 3)


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "qwen3-30b-a3b", "gpt2", "gemma-3-4b", "whisper-tiny", "vit-b-16", "bert-base"]
)
def test_a_preset_is_counted_forward_and_backward_with_the_inputs_it_comes_with(name):
    target = load_target(f"hf:{name}", meta=True)

    profile = flopsight.count(target.model.train(), target.args, target.kwargs, train=True, on="meta")

    assert profile.macs > 0
    assert profile.backward.macs >= 1.5 * profile.macs
    assert profile.coverage.complete


def test_a_preset_has_the_dtype_it_was_published_in_unless_another_is_asked_for():
    assert load_target("hf:llama-3.1-8b", meta=True).model.dtype == torch.bfloat16
    assert load_target("hf:llama-3.1-8b", meta=True, dtype="float32").model.dtype == torch.float32
    assert load_target("hf:gpt2", meta=True).model.dtype == torch.float32


def test_405_billion_parameters_are_trained_on_meta_from_the_command_line(tmp_path, capsys):
    saved = tmp_path / "p.json"

    assert cli.main(["profile", "hf:llama-3.1-405b", "--meta", "--train", "-o", str(saved)]) == 0

    profile = flopsight.load(saved)
    hidden, inner, layers, tokens = 16384, 53248, 126, 128
    keys = 8 * 128  # 8 heads of keys and values
    layer = 2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * inner
    attention = 2 * tokens * tokens * hidden
    assert profile.params == 405_853_388_800
    assert profile.macs == layers * (tokens * layer + attention) + tokens * hidden * 128256
    assert "Inputs: input_ids 1x128, labels 1x128, made from the configuration" in capsys.readouterr().err


EXPERTS = {
    "mixtral-8x7b": 32 * 8 * 3 * 4096 * 14336,
    "mixtral-8x22b": 56 * 8 * 3 * 6144 * 16384,
    "qwen3-30b-a3b": 48 * 128 * 3 * 2048 * 768,
    "qwen3-235b-a22b": 94 * 128 * 3 * 4096 * 1536,
    "deepseek-v3": 58 * 256 * 3 * 7168 * 2048,
    "gpt-oss-20b": 24 * 32 * (3 * 2880 * 2880 + 3 * 2880),
    "gpt-oss-120b": 36 * 128 * (3 * 2880 * 2880 + 3 * 2880),
}
"""Elements of all routed experts: layers, experts, three matrices of each; those of gpt-oss have biases."""


@pytest.mark.parametrize(
    ("name", "share", "published"),
    [
        ("mixtral-8x7b", 2 / 8, 12.9),
        ("mixtral-8x22b", 2 / 8, 39.1),
        ("qwen3-30b-a3b", 8 / 128, 3.35),
        ("qwen3-235b-a22b", 8 / 128, 22.2),
        ("deepseek-v3", 8 / 256, 37.6),
        ("gpt-oss-20b", 4 / 32, 3.61 + 0.58),
        ("gpt-oss-120b", 4 / 128, 5.13 + 0.58),
    ],
)
def test_active_parameters_are_the_published_ones(name, share, published):
    """In billions; the cards of gpt-oss leave the table of embeddings out, 201,088 x 2,880."""
    target = load_target(f"hf:{name}", parse_inputs(["1x4"]), meta=True)
    params, experts = find_preset(name).params, EXPERTS[name]

    profile = flopsight.count(target.model.eval(), target.args, target.kwargs, on="meta")

    assert profile.active_params == params - experts + round(share * experts)
    assert profile.active_params / 1e9 == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("experts", ["eager", "grouped_mm", "batched_mm"])
def test_active_parameters_do_not_depend_on_how_the_experts_run(experts):
    """A small Mixtral on real tensors: 2 layers of 4 experts, of which a token passes 2."""
    config = "mixtral:hidden_size=64,intermediate_size=96,num_hidden_layers=2,num_attention_heads=4,num_key_value_heads=2,num_local_experts=4,vocab_size=100"
    target = load_target(f"hf:{config}", parse_inputs(["2x5"]))
    target.model.set_experts_implementation(experts)

    profiles = [flopsight.count(target.model.eval(), target.args, target.kwargs, on=on) for on in ("real", "meta")]

    idle = 2 * 2 * 3 * 64 * 96
    assert [profile.active_params for profile in profiles] == [profiles[0].params - idle] * 2


def test_a_dense_preset_is_all_active():
    target = load_target("hf:gpt2", parse_inputs(["1x4"]), meta=True)

    assert flopsight.count(target.model, target.args, target.kwargs, on="meta").active_params == PUBLISHED["gpt2"]


def test_a_layer_of_mixtral_reads_two_experts_for_one_token():
    """One layer at one token on an H100: attention, router, norms and two experts in bfloat16 at 3.35 TB/s."""
    target = load_target("hf:mixtral-8x7b:num_hidden_layers=1", parse_inputs(["1x1"]), meta=True)

    profile = flopsight.count(target.model.eval(), target.args, target.kwargs, on="meta")

    weights = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 4096 + 2 * 3 * 4096 * 14336)
    layer = profile["model.layers.0"]
    assert layer.read_param_bytes == weights
    assert weights / 3.35e12 < layer.limit("h100-sxm") < 1.01 * weights / 3.35e12
    assert [str(doubt) for doubt in profile.caveats if "every expert equally often" in str(doubt)]
