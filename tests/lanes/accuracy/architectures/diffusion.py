"""What diffusion models are made of, from diffusers: UNets, transformers, an autoencoder."""

import diffusers
import torch

from architectures.entry import Architecture, Example

SMALL = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}


def unet():
    model = diffusers.UNet2DModel(
        sample_size=16, **SMALL, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return Example(model, (torch.randn(2, 3, 16, 16), 10))


def conditional_unet():
    model = diffusers.UNet2DConditionModel(
        sample_size=16, **SMALL, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=32, attention_head_dim=8,
    )  # fmt: skip
    return Example(model, (torch.randn(2, 4, 16, 16), torch.tensor(10), torch.randn(2, 7, 32)))


def video_unet():
    model = diffusers.UNet3DConditionModel(
        **SMALL, down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"), cross_attention_dim=32, attention_head_dim=8,
    )  # fmt: skip
    return Example(model, (torch.randn(1, 4, 3, 8, 8), torch.tensor(10), torch.randn(1, 7, 32)))


def dit():
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=16, in_channels=4, num_layers=2, sample_size=8, patch_size=2,
        num_embeds_ada_norm=10,
    )  # fmt: skip
    labels = {"timestep": torch.tensor([5, 6]), "class_labels": torch.tensor([1, 2])}
    return Example(model, (torch.randn(2, 4, 8, 8),), labels)


def stable_diffusion_3():
    model = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=1, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=16, out_channels=4,
        pos_embed_max_size=8,
    )  # fmt: skip
    return Example(model, (torch.randn(2, 4, 8, 8), torch.randn(2, 5, 32), torch.randn(2, 16), torch.tensor([1, 2])))


def flux():
    model = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8),
    )  # fmt: skip
    return Example(model, (), {
        "hidden_states": torch.randn(1, 16, 4), "encoder_hidden_states": torch.randn(1, 5, 32),
        "pooled_projections": torch.randn(1, 16), "timestep": torch.tensor([1.0]), "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(5, 3),
    })  # fmt: skip


def autoencoder():
    model = diffusers.AutoencoderKL(
        block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=8,
    )  # fmt: skip
    return Example(model, (torch.randn(2, 3, 32, 32),))


ARCHITECTURES = [
    Architecture("UNet2D", "diffusers", unet),
    Architecture("UNet2DCondition", "diffusers", conditional_unet),
    Architecture("UNet3DCondition", "diffusers", video_unet),
    Architecture("DiT", "diffusers", dit),
    Architecture("Stable Diffusion 3", "diffusers", stable_diffusion_3),
    Architecture("FLUX", "diffusers", flux),
    Architecture("AutoencoderKL", "diffusers", autoencoder),
]
