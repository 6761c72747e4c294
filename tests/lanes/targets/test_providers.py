"""Targets by name from transformers, torchvision and timm, as the command line builds them."""

import pytest
import torch

import flopsight
from flopsight import cli
from flopsight.errors import InputError
from flopsight.targets import room
from flopsight.targets.loading import load_target


def count(text, **options):
    target = load_target(text, **options)
    with torch.no_grad():
        return flopsight.count(target.model.eval(), target.args, target.kwargs)


def test_a_torchvision_model_comes_with_an_image_of_the_size_it_was_trained_on():
    assert load_target("torchvision:resnet50", meta=True).args[0].shape == (1, 3, 224, 224)
    assert load_target("torchvision:inception_v3", meta=True).args[0].shape == (1, 3, 299, 299)


def test_torchvisions_resnet50_has_its_published_parameters_and_macs():
    profile = count("torchvision:resnet50", meta=True)

    assert profile.params == 25_557_032
    assert round(profile.macs / 1e9, 2) == 4.09


def test_a_timm_model_comes_with_an_image_of_its_configured_size():
    target = load_target("timm:vit_tiny_patch16_224", meta=True)

    assert target.args[0].shape == (1, 3, 224, 224)
    assert sum(parameter.numel() for parameter in target.model.parameters()) == 5_717_416


def test_the_arguments_of_a_timm_model_are_typed_by_its_class():
    target = load_target("timm:vit_tiny_patch16_224:img_size=[64,32],num_classes=1k,qkv_bias=no", meta=True)

    assert target.args[0].shape == (1, 3, 64, 32)
    assert target.model.head.out_features == 1024
    assert target.model.blocks[0].attn.qkv.bias is None


def test_a_decoder_comes_with_its_vocabulary_head_and_tokens():
    profile = count(
        "hf:llama:num_hidden_layers=2,hidden_size=256,intermediate_size=512,num_attention_heads=4,num_key_value_heads=4"
    )
    layer = 4 * 256 * 256 + 3 * 256 * 512
    attention = 2 * 128 * 128 * 256

    assert profile.macs == 128 * (2 * layer + 256 * 32000) + 2 * attention


def test_an_encoder_comes_without_a_head():
    target = load_target("hf:bert", meta=True)

    assert type(target.model).__name__ == "BertModel"
    assert target.kwargs["input_ids"].shape == (1, 128)


def test_an_encoder_decoder_comes_with_tokens_for_both():
    assert set(load_target("hf:t5", meta=True).kwargs) == {"input_ids", "decoder_input_ids"}


def test_a_vision_model_comes_with_an_image():
    assert load_target("hf:vit", meta=True).kwargs["pixel_values"].shape == (1, 3, 224, 224)


def test_a_large_model_is_counted_on_meta_from_the_command_line(tmp_path):
    saved = tmp_path / "llama.json"

    assert cli.main(["profile", "hf:llama", "--meta", "-o", str(saved)]) == 0
    profile = flopsight.load(saved)
    assert profile.params == 6_738_415_616
    assert profile.macs == 128 * (32 * (4 * 4096 * 4096 + 3 * 4096 * 11008) + 4096 * 32000) + 32 * 2 * 128 * 128 * 4096


def test_a_model_larger_than_memory_is_refused(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device="cpu": 10**10)

    with pytest.raises(
        InputError, match="hf:llama has 6.74 G parameters, 27.0 GB; this machine has 10.0 GB.*Add --meta"
    ):
        load_target("hf:llama")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hf:lama", "there is no preset of that name. Did you mean 'llama'?"),
        ("hf:llama:hiden_size=3", "The configuration of llama has no 'hiden_size'. Did you mean 'hidden_size'?"),
        ("torchvision:resnet51", "torchvision has no model 'resnet51'. Did you mean"),
        ("timm:resnet5o", "timm has no model 'resnet5o'. Did you mean"),
        ("hf:llama:hidden_size=wide", "hidden_size of the configuration of llama is a whole number; 'wide' is not."),
        (
            "hf:llama:num_hidden_layers=-2",
            "num_hidden_layers of the configuration of llama is a size; -2 is below zero.",
        ),
        ("hf:llama:hidden_act=slu", "transformers has no activation 'slu' for hidden_act. Did you mean"),
        ("hf:llama:hidden_size=33", "is refused by the configuration of llama"),
        ("hf:gemma3:text_config.layers=3", "'layers'"),
        ("timm:resnet50:num_clases=3", "timm:resnet50 has no argument 'num_clases'. Did you mean 'num_classes'?"),
        (
            "timm:vit_tiny_patch16_224:drop_path_rate=lots",
            "drop_path_rate of timm:vit_tiny_patch16_224 is a number; 'lots' is not.",
        ),
        (
            "torchvision:resnet50:num_clases=3",
            "torchvision:resnet50 has no argument 'num_clases'. Did you mean 'num_classes'?",
        ),
        ("diffusers:UNet2DModle", "diffusers has no model 'UNet2DModle'. Did you mean 'UNet2DModel'?"),
    ],
)
def test_a_wrong_name_is_answered_in_one_sentence(text, said):
    with pytest.raises(InputError) as problem:
        load_target(text, meta=True)

    assert said in str(problem.value)
