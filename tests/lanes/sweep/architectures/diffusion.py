"""diffusers: small autoencoders and denoisers of images."""

import torch

from .entry import image, made

AUTOENCODER = {
    "block_out_channels": (8, 16), "norm_num_groups": 4, "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}  # fmt: skip
DENOISER = {
    "sample_size": 16, "block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1,
    "attention_head_dim": 8,
}  # fmt: skip


def _noisy(batch):
    return torch.randn(batch, 3, 16, 16), torch.tensor(3)


def _noisy_with_text(batch):
    return torch.randn(batch, 4, 16, 16), torch.tensor(3), torch.randn(batch, 4, 8)


ENTRIES = [
    made("diffusers:AutoencoderKL", image(16), latent_channels=2, **AUTOENCODER),
    made("diffusers:VQModel", image(16), latent_channels=4, num_vq_embeddings=16, **AUTOENCODER),
    made("diffusers:UNet2DModel", _noisy, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
         up_block_types=("AttnUpBlock2D", "UpBlock2D"), **DENOISER),
    made("diffusers:UNet2DConditionModel", _noisy_with_text, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
         up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=8, **DENOISER),
]  # fmt: skip
