"""Language models of transformers, small: dense, with grouped queries, state spaces, encoders, encoder-decoders."""

from functools import partial

import torch
import transformers as hf

from architectures.entry import Architecture, Example

TOKENS = (2, 16)
SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 99,
}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2}
HEADS = {**GROUPED, "head_dim": 16}
SCAN = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99, "state_size": 8}
ENCODER_DECODER = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 99,
}  # fmt: skip
T5 = {
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 99,
    "decoder_start_token_id": 0,
}

DECODERS = {
    "gpt2": (hf.GPT2Config, {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 32}),
    "gpt_neox": (hf.GPTNeoXConfig, SMALL),
    "opt": (hf.OPTConfig, {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 99,
        "word_embed_proj_dim": 64,
    }),
    "bloom": (hf.BloomConfig, {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "falcon": (hf.FalconConfig, {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99,
    }),
    "llama": (hf.LlamaConfig, SMALL),
    "llama, grouped queries": (hf.LlamaConfig, GROUPED),
    "mistral, sliding window": (hf.MistralConfig, {**GROUPED, "sliding_window": 8}),
    "qwen3": (hf.Qwen3Config, HEADS),
    "gemma2, soft caps": (hf.Gemma2Config, HEADS),
    "gemma3": (hf.Gemma3TextConfig, HEADS),
    "phi3": (hf.Phi3Config, {**GROUPED, "pad_token_id": 0}),
    "olmo2": (hf.Olmo2Config, GROUPED),
    "cohere": (hf.CohereConfig, GROUPED),
    "mamba": (hf.MambaConfig, SCAN),
    "mamba2": (hf.Mamba2Config, {**SCAN, "num_heads": 8, "head_dim": 8, "chunk_size": 8, "n_groups": 2}),
    "rwkv": (hf.RwkvConfig, {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99, "attention_hidden_size": 32,
    }),
    "recurrent_gemma": (hf.RecurrentGemmaConfig, {**SMALL, "num_hidden_layers": 3, "lru_width": 64}),
    "xlnet": (hf.XLNetConfig, {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128, "vocab_size": 99}),
}  # fmt: skip
ENCODERS = {
    "bert": (hf.BertConfig, SMALL),
    "roberta": (hf.RobertaConfig, {**SMALL, "pad_token_id": 1}),
    "electra": (hf.ElectraConfig, {**SMALL, "embedding_size": 32}),
    "albert": (hf.AlbertConfig, {**SMALL, "embedding_size": 32}),
    "deberta_v2": (hf.DebertaV2Config, {
        **SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16,
        "position_buckets": 8,
    }),
    "modernbert": (hf.ModernBertConfig, {**SMALL, "pad_token_id": 0, "local_attention": 8}),
    "longformer": (hf.LongformerConfig, {**SMALL, "attention_window": 8, "pad_token_id": 1}),
    "fnet": (hf.FNetConfig, {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 99}),
}  # fmt: skip
SEQUENCE_TO_SEQUENCE = {
    "t5": (hf.T5Config, T5),
    "bart": (hf.BartConfig, ENCODER_DECODER),
    "pegasus": (hf.PegasusConfig, ENCODER_DECODER),
}


def decoder(config, options):
    ids = torch.randint(5, 99, TOKENS)
    model = hf.AutoModelForCausalLM.from_config(config(**options))
    return Example(model, (), {"input_ids": ids, "labels": ids})


def encoder(config, options):
    """With one sequence padded."""
    ids = torch.randint(5, 99, TOKENS)
    mask = torch.ones_like(ids)
    mask[1, 10:] = 0
    model = hf.AutoModelForMaskedLM.from_config(config(**options))
    return Example(model, (), {"input_ids": ids, "attention_mask": mask, "labels": ids})


def sequence_to_sequence(config, options):
    ids = torch.randint(5, 99, TOKENS)
    model = hf.AutoModelForSeq2SeqLM.from_config(config(**options))
    return Example(model, (), {"input_ids": ids, "labels": ids[:, :8].contiguous()})


ARCHITECTURES = [
    Architecture(name, "transformers", partial(build, *options))
    for build, table in ((decoder, DECODERS), (encoder, ENCODERS), (sequence_to_sequence, SEQUENCE_TO_SEQUENCE))
    for name, options in table.items()
]
