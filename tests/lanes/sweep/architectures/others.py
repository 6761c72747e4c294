"""Diffusion, sound, tables, point clouds and codebooks."""

import torch

from .entry import built, made, sequence


@built("denoising_diffusion_pytorch", "Unet")
def _unet(batch):
    from denoising_diffusion_pytorch import Unet

    return Unet(dim=8, dim_mults=(1, 2), attn_heads=2, attn_dim_head=8), (
        torch.randn(batch, 3, 16, 16),
        torch.arange(1, batch + 1),
    )


@built("denoising_diffusion_pytorch", "Unet1D")
def _unet1d(batch):
    from denoising_diffusion_pytorch import Unet1D

    return Unet1D(dim=8, dim_mults=(1, 2), channels=4), (torch.randn(batch, 4, 32), torch.arange(1, batch + 1))


@built("denoising_diffusion_pytorch", "GaussianDiffusion")
def _gaussian(batch):
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    return GaussianDiffusion(Unet(dim=8, dim_mults=(1, 2)), image_size=16, timesteps=10), (
        torch.rand(batch, 3, 16, 16),
    )


@built("denoising_diffusion_pytorch", "KarrasUnet")
def _karras(batch):
    from denoising_diffusion_pytorch import KarrasUnet

    model = KarrasUnet(
        image_size=16, dim=16, dim_max=32, num_downsamples=2, num_blocks_per_stage=1, attn_res=(8,), attn_dim_head=16
    )
    return model, (torch.randn(batch, 4, 16, 16),), {"time": torch.rand(batch)}


@built("denoising_diffusion_pytorch", "ElucidatedDiffusion")
def _elucidated(batch):
    from denoising_diffusion_pytorch import ElucidatedDiffusion, Unet

    unet = Unet(dim=8, dim_mults=(1, 2), random_fourier_features=True)
    return ElucidatedDiffusion(unet, image_size=16), (torch.rand(batch, 3, 16, 16),)


@built("encodec", "EncodecModel")
def _encodec(batch):
    from encodec.model import EncodecModel
    from encodec.modules import SEANetDecoder, SEANetEncoder
    from encodec.quantization import ResidualVectorQuantizer

    options = {"n_filters": 4, "dimension": 16, "ratios": [4, 2]}
    quantizer = ResidualVectorQuantizer(dimension=16, n_q=2, bins=16)
    model = EncodecModel(
        SEANetEncoder(**options), SEANetDecoder(**options), quantizer, [6.0], 24000, 1, normalize=False
    )
    return model, (torch.randn(batch, 1, 512),)


@built("encodec", "SEANetEncoder")
def _seanet(batch):
    from encodec.modules import SEANetEncoder

    return SEANetEncoder(n_filters=4, dimension=16, ratios=[4, 2]), (torch.randn(batch, 1, 256),)


@built("encodec", "SEANetDecoder")
def _seanet_decoder(batch):
    from encodec.modules import SEANetDecoder

    return SEANetDecoder(n_filters=4, dimension=16, ratios=[4, 2]), (torch.randn(batch, 16, 16),)


@built("egnn_pytorch", "EGNN_Network")
def _egnn(batch):
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(num_tokens=8, dim=16, depth=2, num_nearest_neighbors=4)
    return model, (torch.randint(0, 8, (batch, 12)), torch.randn(batch, 12, 3))


@built("rtdl_revisiting_models", "FTTransformer")
def _rtdl_ft(batch):
    from rtdl_revisiting_models import FTTransformer

    options = {**FTTransformer.get_default_kwargs(1), "d_block": 16, "attention_n_heads": 2}
    model = FTTransformer(n_cont_features=4, cat_cardinalities=[3, 5], d_out=1, **options)
    return model, (torch.randn(batch, 4), torch.randint(0, 3, (batch, 2)))


@built("vector_quantize_pytorch", "FSQ")
def _fsq(batch):
    from vector_quantize_pytorch import FSQ

    return FSQ(levels=[8, 5, 5], dim=16), (torch.randn(batch, 16, 16),)


@built("pytorch_tabnet", "TabNet")
def _tabnet(batch):
    from pytorch_tabnet.tab_network import TabNet

    model = TabNet(8, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(8), virtual_batch_size=4)
    return model, (torch.randn(batch, 8),)


ENTRIES = [
    _unet, _unet1d, _gaussian, _karras, _elucidated, _encodec, _seanet, _seanet_decoder, _egnn, _rtdl_ft,
    _fsq, _tabnet,
    made("rtdl_revisiting_models:MLP", lambda batch: (torch.randn(batch, 8),), called="MLP", d_in=8, d_out=1, n_blocks=2, d_block=16,
         dropout=0.1),
    made("rtdl_revisiting_models:ResNet", lambda batch: (torch.randn(batch, 8),), d_in=8, d_out=1, n_blocks=2, d_block=16,
         d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0),
    made("vector_quantize_pytorch:VectorQuantize", sequence(16, 16), dim=16, codebook_size=8),
    made("vector_quantize_pytorch:ResidualVQ", sequence(16, 16), dim=16, codebook_size=8, num_quantizers=2),
    made("vector_quantize_pytorch:LFQ", sequence(16, 16), dim=16, codebook_size=16),
    made("vector_quantize_pytorch:SimVQ", sequence(16, 16), dim=16, codebook_size=8),
]  # fmt: skip
