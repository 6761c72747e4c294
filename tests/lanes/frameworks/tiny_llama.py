"""A Llama of a few thousand parameters, its data, and its multiply-accumulates worked by hand."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, WORDS = 2, 32, 64, 4, 2, 96
BATCH, TOKENS = 4, 16


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=HIDDEN,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            max_position_embeddings=TOKENS,
            use_cache=False,
        )
    )


def dataset(samples):
    ids = torch.randint(WORDS, (samples, TOKENS), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


def batch(samples=BATCH):
    rows = dataset(samples)
    return {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels")}


def macs(samples=BATCH):
    """One forward: per token the four projections, the three of the MLP and the head; per pair of tokens two products."""
    narrow = HIDDEN * KV_HEADS // HEADS
    per_layer = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * narrow + 3 * HIDDEN * INNER
    attention = 2 * TOKENS * TOKENS * HIDDEN
    return samples * (LAYERS * (TOKENS * per_layer + attention) + TOKENS * HIDDEN * WORDS)


def parameters():
    """Two embeddings, and per layer the projections, the MLP and two norms; one norm at the end."""
    narrow = HIDDEN * KV_HEADS // HEADS
    per_layer = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * narrow + 3 * HIDDEN * INNER + 2 * HIDDEN
    return 2 * WORDS * HIDDEN + LAYERS * per_layer + HIDDEN
