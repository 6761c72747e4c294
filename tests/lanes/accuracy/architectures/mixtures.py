"""Mixtures of experts of transformers, with the experts in a loop and in grouped products."""

from functools import partial

import transformers as hf
from reasons import ROUTING

from architectures.entry import Architecture, Example
from architectures.language import GROUPED, HEADS, T5, decoder, sequence_to_sequence

EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
MIXTURES = {
    "mixtral": (hf.MixtralConfig, {**GROUPED, **LOCAL}),
    "qwen2_moe": (hf.Qwen2MoeConfig, {
        **GROUPED, **EXPERTS, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
    }),
    "qwen3_moe": (hf.Qwen3MoeConfig, {**HEADS, **EXPERTS, "moe_intermediate_size": 32}),
    "olmoe": (hf.OlmoeConfig, {**GROUPED, **EXPERTS}),
    "deepseek_v3": (hf.DeepseekV3Config, {
        **GROUPED, "num_key_value_heads": 4, "moe_intermediate_size": 32, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 32,
        "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "qk_head_dim": 16,
    }),
    "gpt_oss": (hf.GptOssConfig, {
        **HEADS, **LOCAL, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"],
    }),
    "phimoe": (hf.PhimoeConfig, {**GROUPED, **LOCAL}),
    "granitemoe": (hf.GraniteMoeConfig, {**GROUPED, **LOCAL}),
    "jamba, mamba and attention": (hf.JambaConfig, {
        **GROUPED, "hidden_size": 32, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1,
        "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 4, "mamba_d_state": 8, "mamba_dt_rank": 4,
    }),
}  # fmt: skip
LLAMA4 = {
    **HEADS, "num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 128, "attention_chunk_size": 8,
}  # fmt: skip
SWITCH = {
    **T5, "num_experts": 4, "expert_capacity": 16, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
}  # fmt: skip


def mixture(config, options, implementation):
    model, args, kwargs = decoder(config, options)
    model.set_experts_implementation(implementation)
    return Example(model, args, kwargs)


ARCHITECTURES = [
    *(
        Architecture(f"{name}, {implementation}", "transformers", partial(mixture, *options, implementation))
        for name, options in MIXTURES.items()
        for implementation in ("eager", "grouped_mm")
    ),
    Architecture("mixtral, batched_mm", "transformers", partial(mixture, *MIXTURES["mixtral"], "batched_mm")),
    Architecture("llama4", "transformers", partial(decoder, hf.Llama4TextConfig, LLAMA4)),
    Architecture(
        "switch_transformers", "transformers", partial(sequence_to_sequence, hf.SwitchTransformersConfig, SWITCH),
        reasons=(ROUTING,), pooled="experts",
    ),
]  # fmt: skip
