"""Images, sound and both with text, from transformers, small."""

from functools import partial

import torch
import transformers as hf
from reasons import NUMPY

from architectures.entry import Architecture, Example
from architectures.language import ENCODER_DECODER, SMALL

LAYERS = {name: value for name, value in SMALL.items() if name != "vocab_size"}
PATCHES = {"image_size": 32, "patch_size": 8, **LAYERS}
TEXT = {"max_position_embeddings": 16, **SMALL}
WAVES = {
    "conv_dim": (32, 32, 32), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "layerdrop": 0.0, "mask_time_prob": 0.0,
    **LAYERS, "vocab_size": 32,
}  # fmt: skip
BACKBONE = hf.ResNetConfig(
    embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], out_features=["stage4"]
)


def image(size=32):
    return {"pixel_values": torch.randn(2, 3, size, size)}


def on_images(model, config, options, size=32):
    return Example(model(config(**options)), (), image(size))


def on_waves(model, config, **options):
    return Example(model(config(**WAVES, **options)), (), {"input_values": torch.randn(2, 2000)})


def wav2vec2_with_loss():
    model, _, kwargs = on_waves(hf.Wav2Vec2ForCTC, hf.Wav2Vec2Config)
    return Example(model, (), {**kwargs, "labels": torch.randint(1, 30, (2, 10))})


def wav2vec2_masked():
    model = hf.Wav2Vec2Model(hf.Wav2Vec2Config(**{**WAVES, "mask_time_prob": 0.2, "mask_time_length": 2}))
    lengths = torch.tensor([[2000], [1500]])
    mask = (torch.arange(2000) < lengths).long()
    return Example(model, (), {"input_values": torch.randn(2, 2000), "attention_mask": mask})


def whisper():
    config = hf.WhisperConfig(
        **ENCODER_DECODER, max_source_positions=50, max_target_positions=16, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, num_mel_bins=20, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    speech = {"input_features": torch.randn(2, 20, 100), "labels": torch.randint(3, 90, (2, 8))}
    return Example(hf.WhisperForConditionalGeneration(config), (), speech)


def encodec():
    config = hf.EncodecConfig(num_filters=8, hidden_size=32, num_lstm_layers=1, codebook_dim=32, codebook_size=64)
    return Example(hf.EncodecModel(config), (), {"input_values": torch.randn(2, 1, 960)})


def spectrogram_transformer():
    config = hf.ASTConfig(max_length=64, num_mel_bins=32, patch_size=16, **LAYERS)
    return Example(hf.ASTForAudioClassification(config), (), {"input_values": torch.randn(2, 64, 32)})


def contrastive(model, config):
    config = config(text_config={**TEXT, "eos_token_id": 98}, vision_config=PATCHES)
    return Example(model(config), (), {"input_ids": torch.randint(3, 90, (2, 8)), "return_loss": True, **image()})


def detr():
    config = hf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=BACKBONE, num_queries=10,
        **{name: value for name, value in ENCODER_DECODER.items() if name != "vocab_size"},
    )  # fmt: skip
    return Example(hf.DetrForObjectDetection(config), (), image(64))


def llava():
    config = hf.LlavaConfig(
        vision_config=hf.CLIPVisionConfig(**PATCHES), text_config=hf.LlamaConfig(num_key_value_heads=2, **SMALL),
        image_token_id=98, image_token_index=98, vision_feature_layer=-1,
    )  # fmt: skip
    ids = torch.randint(3, 90, (2, 24))
    ids[:, 1:17] = 98
    return Example(hf.LlavaForConditionalGeneration(config), (), {
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids, **image(),
    })  # fmt: skip


def qwen2_vl():
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}
    config = hf.Qwen2VLConfig(
        vision_config={
            "depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "patch_size": 8, "spatial_merge_size": 2,
            "temporal_patch_size": 2, "mlp_ratio": 2,
        },
        text_config={**SMALL, "num_key_value_heads": 2, "rope_parameters": rope},
        image_token_id=97, video_token_id=96, vision_start_token_id=95, vision_end_token_id=94,
    )  # fmt: skip
    ids = torch.randint(3, 90, (1, 16))
    ids[:, 1:7] = torch.tensor([95, 97, 97, 97, 97, 94])
    return Example(hf.Qwen2VLForConditionalGeneration(config), (), {
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == 97).long(),
        "pixel_values": torch.randn(16, 3 * 2 * 8 * 8), "image_grid_thw": torch.tensor([[1, 4, 4]]),
    })  # fmt: skip


CONVNEXT = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}
SEGFORMER = {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1], "decoder_hidden_size": 32}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
BUILDERS = {
    "ViT": partial(on_images, hf.ViTForImageClassification, hf.ViTConfig, PATCHES),
    "DeiT": partial(on_images, hf.DeiTForImageClassification, hf.DeiTConfig, PATCHES),
    "BEiT": partial(on_images, hf.BeitForImageClassification, hf.BeitConfig, PATCHES),
    "DINOv2": partial(on_images, hf.Dinov2Model, hf.Dinov2Config, PATCHES),
    "Swin": partial(on_images, hf.SwinForImageClassification, hf.SwinConfig, SWIN),
    "ConvNeXt": partial(on_images, hf.ConvNextForImageClassification, hf.ConvNextConfig, CONVNEXT, 64),
    "SegFormer": partial(on_images, hf.SegformerForSemanticSegmentation, hf.SegformerConfig, SEGFORMER, 64),
    "DETR": detr,
    "CLIP": partial(contrastive, hf.CLIPModel, hf.CLIPConfig),
    "SigLIP": partial(contrastive, hf.SiglipModel, hf.SiglipConfig),
    "LLaVA": llava,
    "Qwen2-VL": qwen2_vl,
    "Whisper": whisper,
    "wav2vec2": partial(on_waves, hf.Wav2Vec2ForCTC, hf.Wav2Vec2Config),
    "wav2vec2, CTC loss": wav2vec2_with_loss,
    "HuBERT": partial(on_waves, hf.HubertModel, hf.HubertConfig),
    "WavLM": partial(on_waves, hf.WavLMModel, hf.WavLMConfig),
    "AST": spectrogram_transformer,
}
ARCHITECTURES = [
    *(Architecture(name, "transformers", build) for name, build in BUILDERS.items()),
    Architecture("wav2vec2, masked", "transformers", wav2vec2_masked, (NUMPY,)),
    Architecture("EnCodec", "transformers", encodec),
]
