"""GPT-2 small (Radford et al., 2019), with linear layers, fused causal attention and a tied head."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT; the defaults are GPT-2 small's."""

    vocabulary: int = 50257
    context: int = 1024
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    """Every token asks those before it, in several heads."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.c_attn = nn.Linear(config.hidden, 3 * config.hidden)
        self.c_proj = nn.Linear(config.hidden, config.hidden)
        self.resid_dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """What a token learns from its past."""
        heads = self.c_attn(hidden).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind()
        dropout = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.resid_dropout(self.c_proj(found.transpose(1, 2).flatten(2)))


class MLP(nn.Module):
    """The feed-forward network, four times as wide inside."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.hidden, 4 * config.hidden)
        self.act = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(4 * config.hidden, config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """What the network adds to a token."""
        return self.dropout(self.c_proj(self.act(self.c_fc(hidden))))


class Block(nn.Module):
    """Each sublayer reads a normalised copy and adds to the stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.hidden)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.hidden)
        self.mlp = MLP(config)

    def forward(self, hidden: Tensor) -> Tensor:
        """The tokens, one block further."""
        hidden = hidden + self.attn(self.ln_1(hidden))
        return hidden + self.mlp(self.ln_2(hidden))


class GPT(nn.Module):
    """Next-token scores for sequences of up to 1024 tokens; the small model has 124,439,808 parameters."""

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__()
        config = config or GPTConfig()
        self.wte = nn.Embedding(config.vocabulary, config.hidden)
        self.wpe = nn.Embedding(config.context, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.hidden)
        self.lm_head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        """Scores of every word at every place."""
        tokens, most = input_ids.shape[1], self.wpe.num_embeddings
        if tokens > most:  # on meta a lookup past the table says nothing
            raise ValueError(f"{tokens} tokens are more than the {most} positions that this model has")
        places = torch.arange(tokens, device=input_ids.device)
        hidden = self.drop(self.wte(input_ids) + self.wpe(places))
        for block in self.h:
            hidden = block(hidden)
        return self.lm_head(self.ln_f(hidden))


def inputs(batch: int, tokens: int = 128) -> dict[str, Tensor]:
    """Sequences of tokens."""
    return {"input_ids": torch.randint(GPTConfig().vocabulary, (batch, tokens))}
