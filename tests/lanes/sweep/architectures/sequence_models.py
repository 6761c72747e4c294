"""x-transformers in its many settings, and the small libraries around efficient attention."""

import torch

from .entry import built, made, sequence, tokens

SMALL = {"dim": 32, "depth": 2, "heads": 2}
SETTINGS = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True},
    "t5_bias": {"rel_pos_bias": True},
    "dynamic_bias": {"dynamic_pos_bias": True},
    "flash": {"attn_flash": True},
    "grouped_queries": {"attn_kv_heads": 1},
    "glu": {"ff_glu": True},
    "rmsnorm": {"use_rmsnorm": True},
    "scalenorm": {"use_scalenorm": True},
    "sandwich": {"sandwich_norm": True},
    "macaron": {"macaron": True},
    "talking_heads": {"attn_pre_talking_heads": True},
    "qk_norm": {"attn_qk_norm": True},
    "memory_keys": {"attn_num_mem_kv": 4},
    "shifted": {"shift_tokens": 1},
    "hyper_connections": {"num_residual_streams": 2},
    "gated_values": {"attn_gate_values": True},
}


def _decoder(name, options):
    def make(batch):
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(**SMALL, attn_dim_head=16, **options)
        return TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers), (
            torch.randint(0, 64, (batch, 16)),
        )

    return built("x_transformers", f"decoder_{name}")(make)


@built("x_transformers", "encoder")
def _encoder(batch):
    from x_transformers import Encoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Encoder(**SMALL, attn_dim_head=16))
    return model, (torch.randint(0, 64, (batch, 16)),), {"mask": torch.ones(batch, 16, dtype=torch.bool)}


@built("x_transformers", "encoder_decoder")
def _encoder_decoder(batch):
    from x_transformers import XTransformer

    model = XTransformer(
        dim=32, enc_num_tokens=64, enc_depth=1, enc_heads=2, enc_max_seq_len=16, dec_num_tokens=64, dec_depth=1,
        dec_heads=2, dec_max_seq_len=16,
    )  # fmt: skip
    return model, (torch.randint(0, 64, (batch, 16)), torch.randint(0, 64, (batch, 16)))


@built("x_transformers", "autoregressive_loss")
def _autoregressive(batch):
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Decoder(**SMALL, attn_dim_head=16))
    return AutoregressiveWrapper(model), (torch.randint(0, 64, (batch, 17)),)


@built("x_transformers", "vision")
def _vision(batch):
    from x_transformers import Encoder, ViTransformerWrapper

    model = ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(**SMALL))
    return model, (torch.randn(batch, 3, 32, 32),)


@built("x_transformers", "continuous")
def _continuous(batch):
    from x_transformers import ContinuousTransformerWrapper, Encoder

    model = ContinuousTransformerWrapper(dim_in=8, dim_out=4, max_seq_len=32, attn_layers=Encoder(**SMALL))
    return model, (torch.randn(batch, 16, 8),)


@built("x_transformers", "xl_memories")
def _memories(batch):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(**SMALL, rel_pos_bias=True)
    model = TransformerWrapper(num_tokens=64, max_seq_len=32, max_mem_len=16, attn_layers=layers)
    return model, (torch.randint(0, 64, (batch, 16)),), {"mems": [torch.randn(batch, 8, 32) for _ in "ab"]}


@built("perceiver_pytorch", "PerceiverIO")
def _perceiver_io(batch):
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        dim=16, queries_dim=16, logits_dim=10, depth=1, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=2,
        cross_dim_head=16, latent_dim_head=16,
    )  # fmt: skip
    return model, (torch.randn(batch, 24, 16),), {"queries": torch.randn(12, 16)}


PERCEIVER = {
    "input_channels": 3, "input_axis": 2, "num_freq_bands": 2, "max_freq": 4.0, "depth": 2, "num_latents": 8,
    "latent_dim": 32, "cross_heads": 1, "latent_heads": 2, "cross_dim_head": 16, "latent_dim_head": 16,
    "num_classes": 10,
}  # fmt: skip


@built("mambapy", "Mamba")
def _mamba(batch):
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=2)), (torch.randn(batch, 16, 16),)


@built("mambapy", "Mamba_sequential")
def _sequential_mamba(batch):
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=1, pscan=False)), (torch.randn(batch, 8, 16),)


def _pixels(batch):
    return (torch.randn(batch, 16, 16, 3),)


ENTRIES = [
    *(_decoder(name, options) for name, options in SETTINGS.items()),
    _encoder, _encoder_decoder, _autoregressive, _vision, _continuous, _memories,
    made("perceiver_pytorch.perceiver_pytorch:Perceiver", _pixels, **PERCEIVER),
    made("perceiver_pytorch.perceiver_pytorch:Perceiver", _pixels, called="tied_weights", weight_tie_layers=True,
         **PERCEIVER),
    made("perceiver_pytorch.gated:Perceiver", _pixels, called="gated", **PERCEIVER),
    _perceiver_io,
    made("performer_pytorch:PerformerLM", tokens(32), num_tokens=64, max_seq_len=32, dim=32, depth=1, heads=2,
         dim_head=16, nb_features=8),
    made("performer_pytorch:Performer", sequence(16, 32), dim=32, depth=1, heads=2, dim_head=16, nb_features=8),
    made("linformer:LinformerLM", tokens(32), num_tokens=64, dim=32, seq_len=32, depth=2, heads=2, k=8),
    made("linformer:Linformer", sequence(32, 32), dim=32, seq_len=32, depth=2, heads=2, k=8, one_kv_head=True),
    made("conformer:Conformer", sequence(16, 32), dim=32, depth=2, dim_head=16, heads=2, ff_mult=2,
         conv_expansion_factor=2, conv_kernel_size=7),
    made("reformer_pytorch:ReformerLM", tokens(32), num_tokens=64, dim=32, depth=1, max_seq_len=32, heads=2,
         bucket_size=8, n_hashes=2, causal=True),
    made("routing_transformer:RoutingTransformerLM", tokens(32), num_tokens=64, dim=32, heads=2, depth=1,
         max_seq_len=32, causal=True, window_size=8),
    made("sinkhorn_transformer:SinkhornTransformerLM", tokens(32), num_tokens=64, dim=32, heads=2, depth=1,
         max_seq_len=32, bucket_size=8),
    made("linear_attention_transformer:LinearAttentionTransformerLM", tokens(32), num_tokens=64, dim=32, heads=2,
         depth=2, max_seq_len=32, causal=True, blindspot_size=1),
    made("local_attention:LocalTransformer", tokens(32), num_tokens=64, dim=32, depth=2, max_seq_len=32, causal=True,
         local_attn_window_size=8, heads=2, dim_head=16),
    made("nystrom_attention:Nystromformer", sequence(32, 32), dim=32, depth=2, heads=2, dim_head=16, num_landmarks=8),
    made("axial_attention:AxialAttention", lambda batch: (torch.randn(batch, 16, 8, 8),), dim=16, dim_index=1, heads=2,
         num_dimensions=2),
    made("axial_attention:AxialImageTransformer", lambda batch: (torch.randn(batch, 16, 8, 8),), dim=16, depth=1, heads=2,
         reversible=False),
    made("g_mlp_pytorch:gMLP", tokens(32), num_tokens=64, dim=32, depth=2, seq_len=32),
    made("g_mlp_pytorch:gMLPVision", lambda batch: (torch.randn(batch, 3, 32, 32),), image_size=32, patch_size=8, num_classes=10,
         dim=32, depth=2),
    made("mlp_mixer_pytorch:MLPMixer", lambda batch: (torch.randn(batch, 3, 32, 32),), image_size=32, channels=3, patch_size=8,
         dim=32, depth=2, num_classes=10),
    made("lambda_networks:LambdaLayer", lambda batch: (torch.randn(batch, 16, 8, 8),), dim=16, dim_out=16, n=8, dim_k=8, heads=2,
         dim_u=1),
    made("lambda_networks:LambdaLayer", lambda batch: (torch.randn(batch, 16, 8, 8),), called="local_context", dim=16, dim_out=16,
         r=5, dim_k=8, heads=2, dim_u=2),
    made("iTransformer:iTransformer", sequence(16, 6), num_variates=6, lookback_len=16, dim=32, depth=1, heads=2,
         dim_head=16, pred_length=(4, 8)),
    made("soft_moe_pytorch:SoftMoE", sequence(16, 32), dim=32, seq_len=16, num_experts=4),
    made("mixture_of_experts:MoE", sequence(16, 32), dim=32, num_experts=4),
    _mamba, _sequential_mamba,
]  # fmt: skip
