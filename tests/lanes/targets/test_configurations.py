"""Configuration files, folders and cached hub names as targets, with changes; and diffusers."""

import json

import pytest
import torch

import flopsight
from flopsight import cli
from flopsight.errors import InputError
from flopsight.targets.inputs import parse_inputs
from flopsight.targets.loading import load_target

SMALL = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "quantization_config": {"quant_method": "fp8"}, "transformers_version": "4.43.0",
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(SMALL))
    return tmp_path


def macs(layers, tokens, batch=1):
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128
    return batch * (tokens * (layers * layer + 64 * 100) + layers * 2 * tokens * tokens * 64)


@pytest.mark.parametrize("name", ["hf:./config.json", "hf:./", "hf:org/name"])
def test_a_file_a_folder_and_a_cached_name_are_the_same_model(name):
    target = load_target(name, meta=True)

    assert type(target.model).__name__ == "LlamaForCausalLM"
    assert len(target.model.model.layers) == 3
    assert target.kwargs["input_ids"].shape == (1, 128)


def test_the_first_command_of_a_user_with_a_configuration(capsys):
    assert cli.main(["profile", "hf:./config.json", "--meta", "--train", "-i", "1x8192", "-o", "p.json"]) == 0
    assert flopsight.load("p.json").macs == macs(layers=3, tokens=8192)


def test_changes_go_after_a_second_colon(capsys):
    assert cli.main(["profile", "hf:./config.json:num_hidden_layers=4", "-i", "2x512", "--meta", "-o", "p.json"]) == 0
    assert flopsight.load("p.json").macs == macs(layers=4, tokens=512, batch=2)


def test_a_key_may_have_another_name_in_the_configuration():
    """GPT-2 calls its width n_embd and its layers n_layer."""
    model = load_target("hf:gpt2:hidden_size=48,num_attention_heads=4,n_layer=2", meta=True).model

    assert model.config.n_embd == 48
    assert len(model.transformer.h) == 2


def test_a_key_inside_a_configuration_is_changed_by_its_path():
    model = load_target(
        "hf:gemma-3-4b:text_config.num_hidden_layers=2,vision_config.num_hidden_layers=3", meta=True
    ).model

    assert len(model.model.language_model.layers) == 2
    assert len(model.model.vision_tower.encoder.layers) == 3


def test_given_inputs_are_completed_by_those_the_model_cannot_do_without():
    target = load_target("hf:t5:num_layers=1", parse_inputs(["3x32"]), meta=True)

    assert target.kwargs["input_ids"].shape == (3, 32)
    assert target.kwargs["input_ids"].dtype == torch.int64
    assert target.kwargs["decoder_input_ids"].shape == (3, 32)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("vit-b-16", {"pixel_values": (1, 3, 224, 224)}),
        ("whisper-tiny", {"input_features": (1, 80, 3000), "decoder_input_ids": (1, 128)}),
        ("clip", {"input_ids": (1, 77), "pixel_values": (1, 3, 224, 224)}),
        ("wav2vec2", {"input_values": (1, 16000)}),
    ],
)
def test_inputs_are_made_from_the_configuration(name, inputs):
    target = load_target(f"hf:{name}", meta=True)

    assert {key: tuple(value.shape) for key, value in target.kwargs.items()} == inputs
    assert all(key in target.remark for key in inputs)


def test_a_configuration_that_needs_code_from_the_hub_is_one_sentence(here):
    (here / "config.json").write_text('{"model_type": "own", "auto_map": {"AutoModel": "m.M"}}')

    with pytest.raises(InputError, match="needs code from the hub .auto_map., which is not run"):
        load_target("hf:./config.json")


def test_diffusers_models_come_with_latents_a_time_and_a_prompt():
    """Stable Diffusion 1.5's denoiser: 859,520,964 parameters."""
    target = load_target("diffusers:UNet2DConditionModel:cross_attention_dim=768", meta=True)

    assert sum(parameter.numel() for parameter in target.model.parameters()) == 859_520_964
    assert target.kwargs["encoder_hidden_states"].shape == (1, 77, 768)
    profile = flopsight.count(target.model, target.args, target.kwargs, on="meta")
    assert profile.coverage.complete


def test_a_diffusers_configuration_names_its_class(here):
    (here / "config.json").write_text('{"_class_name": "AutoencoderKL", "sample_size": 64, "unknown": 1}')

    target = load_target("diffusers:./config.json", meta=True)

    assert type(target.model).__name__ == "AutoencoderKL"
    assert target.kwargs["sample"].shape == (1, 3, 64, 64)


def test_a_timm_model_is_changed_like_any_other():
    target = load_target("timm:vit_tiny_patch16_224:img_size=384,num_classes=10", meta=True)

    assert target.args[0].shape == (1, 3, 384, 384)
    assert target.model.num_classes == 10
