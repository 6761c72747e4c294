"""BERT (Devlin et al., 2018) for sequence classification, with the module names that transformers gives it."""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT; the defaults are those of the base model."""

    vocabulary: int = 30522
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    intermediate: int = 3072
    positions: int = 512
    token_types: int = 2
    dropout: float = 0.1
    eps: float = 1e-12


class BertEmbeddings(nn.Module):
    """Words, their places and their segments."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocabulary, config.hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.positions, config.hidden)
        self.token_type_embeddings = nn.Embedding(config.token_types, config.hidden)
        self.LayerNorm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """One vector a token; without types every token is of the first."""
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        tokens, most = input_ids.shape[1], self.position_embeddings.num_embeddings
        if tokens > most:  # on meta a lookup past the table says nothing
            raise ValueError(f"{tokens} tokens are more than the {most} positions that this model has")
        places = torch.arange(tokens, device=input_ids.device)
        words = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(words + self.position_embeddings(places)))


class BertSelfAttention(nn.Module):
    """Every token asks every other, in several heads."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.hidden, config.hidden)
        self.key = nn.Linear(config.hidden, config.hidden)
        self.value = nn.Linear(config.hidden, config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The values, weighted by how well keys answer queries."""
        projected = (project(hidden) for project in (self.query, self.key, self.value))
        query, key, value = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in projected)
        scores = query @ key.transpose(-1, -2) / sqrt(query.shape[-1]) + mask
        return (self.dropout(self.weigh(scores)) @ value).transpose(1, 2).flatten(2)

    def weigh(self, scores: Tensor) -> Tensor:
        """Weights that add up to 1."""
        return scores.softmax(dim=-1)


class AddAndNorm(nn.Module):
    """A linear layer whose output is added to what came in: how every sublayer ends."""

    def __init__(self, features_in: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(features_in, config.hidden)
        self.LayerNorm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, found: Tensor, hidden: Tensor) -> Tensor:
        """The sum, normalised."""
        return self.LayerNorm(self.dropout(self.dense(found)) + hidden)


class BertSelfOutput(AddAndNorm):
    """Mixes the heads."""


class BertOutput(AddAndNorm):
    """The narrow half of the feed-forward network."""


class BertAttention(nn.Module):
    """Self-attention and its output."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config.hidden, config)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Tokens that know their neighbours."""
        return self.output(self.self(hidden, mask), hidden)


class BertIntermediate(nn.Module):
    """The wide half of the feed-forward network."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden, config.intermediate)

    def forward(self, hidden: Tensor) -> Tensor:
        """Wide features, through GELU."""
        return F.gelu(self.dense(hidden))


class BertLayer(nn.Module):
    """Attention, then the feed-forward network."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config.intermediate, config)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The tokens, one layer further."""
        hidden = self.attention(hidden, mask)
        return self.output(self.intermediate(hidden), hidden)


class BertEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config) for _ in range(config.layers))

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The tokens after every layer."""
        for layer in self.layer:
            hidden = layer(hidden, mask)
        return hidden


class BertPooler(nn.Module):
    """Sums up a sequence by its first token."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden, config.hidden)
        self.activation = nn.Tanh()

    def forward(self, hidden: Tensor) -> Tensor:
        """One vector a sequence."""
        return self.activation(self.dense(hidden[:, 0]))


class BertModel(nn.Module):
    """Embeddings, encoder, pooler."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)

    def forward(self, input_ids: Tensor, mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """One vector a sequence."""
        hidden = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        return self.pooler(hidden)


class Classification(NamedTuple):
    """Scores, and the loss if labels were given."""

    loss: Tensor
    logits: Tensor


class BertForSequenceClassification(nn.Module):
    """Two classes from sequences of up to 512 tokens; the base model has 109,483,778 parameters."""

    def __init__(self, config: BertConfig | None = None, classes: int = 2) -> None:
        super().__init__()
        config = config or BertConfig()
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden, classes)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | Classification:
        """Class scores, with the loss if labels are given."""
        mask = additive_mask(input_ids, attention_mask, self.classifier.weight.dtype)
        logits: Tensor = self.classifier(self.dropout(self.bert(input_ids, mask, token_type_ids)))
        return logits if labels is None else Classification(F.cross_entropy(logits, labels), logits)


def additive_mask(input_ids: Tensor, attention_mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Zero for a token that may be looked at, else a large negative number, for batch x heads x query x key."""
    seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    hidden = seen[:, None, None, :] == 0
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill(hidden, torch.finfo(dtype).min)


def full_sequences(batch: int, tokens: int, vocabulary: int) -> dict[str, Tensor]:
    """Sequences without padding."""
    input_ids = torch.randint(vocabulary, (batch, tokens))
    return {
        "input_ids": input_ids,
        "attention_mask": torch.ones_like(input_ids),
        "token_type_ids": torch.zeros_like(input_ids),
    }


def inputs(batch: int, tokens: int = 128) -> dict[str, Tensor]:
    """Full sequences with their labels."""
    return {**full_sequences(batch, tokens, BertConfig().vocabulary), "labels": torch.ones(batch, dtype=torch.int64)}
