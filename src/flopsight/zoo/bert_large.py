"""BERT-large for pretraining with the norms before the sublayers, and the module names of DeepSpeed's example."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from . import bert
from .bert import BertConfig, BertEmbeddings

LARGE = BertConfig(vocabulary=30528, hidden=1024, layers=24, heads=16, intermediate=4096)
"""The vocabulary is padded to a multiple of 64."""


class FusedLayerNorm(nn.LayerNorm):
    """A layer norm, under the name of the fused kernel that the published model uses."""


class LinearActivation(nn.Linear):
    """A linear layer with its activation."""

    def __init__(self, features_in: int, features: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__(features_in, features)
        self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        """The activated projection."""
        return self.activation(super().forward(input))


class BertSelfAttention(bert.BertSelfAttention):
    """Every token asks every other; the softmax is a module of its own."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.softmax = nn.Softmax(dim=-1)

    def weigh(self, scores: Tensor) -> Tensor:
        """Weights that add up to 1."""
        return self.softmax(scores)


class Projection(nn.Module):
    """A linear layer and dropout: how every sublayer ends."""

    def __init__(self, features_in: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(features_in, config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """What the layer adds to its input."""
        return self.dropout(self.dense(hidden))


class BertSelfOutput(Projection):
    """Mixes the heads."""


class BertOutput(Projection):
    """The narrow half of the feed-forward network."""


class BertAttention(nn.Module):
    """Self-attention and its output."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config.hidden, config)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """What a token learns from its neighbours."""
        return self.output(self.self(hidden, mask))


class BertIntermediate(nn.Module):
    """The wide half of the feed-forward network."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense_act = LinearActivation(config.hidden, config.intermediate, F.gelu)

    def forward(self, hidden: Tensor) -> Tensor:
        """Wide features, through GELU."""
        return self.dense_act(hidden)


class BertLayer(nn.Module):
    """Each sublayer reads a normalised copy and adds to the stream."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.PreAttentionLayerNorm = FusedLayerNorm(config.hidden, eps=config.eps)
        self.PostAttentionLayerNorm = FusedLayerNorm(config.hidden, eps=config.eps)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config.intermediate, config)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The tokens, one layer further."""
        hidden = hidden + self.attention(self.PreAttentionLayerNorm(hidden), mask)
        return hidden + self.output(self.intermediate(self.PostAttentionLayerNorm(hidden)))


class BertEncoder(nn.Module):
    """The stack of layers and the norm that closes it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.FinalLayerNorm = FusedLayerNorm(config.hidden, eps=config.eps)
        self.layer = nn.ModuleList(BertLayer(config) for _ in range(config.layers))

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The tokens after every layer."""
        for layer in self.layer:
            hidden = layer(hidden, mask)
        return self.FinalLayerNorm(hidden)


class BertPooler(nn.Module):
    """Sums up a sequence by its first token."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense_act = LinearActivation(config.hidden, config.hidden, torch.tanh)

    def forward(self, hidden: Tensor) -> Tensor:
        """One vector a sequence."""
        return self.dense_act(hidden[:, 0])


class BertModel(nn.Module):
    """Embeddings, encoder, pooler."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)

    def forward(self, input_ids: Tensor, mask: Tensor, token_type_ids: Tensor | None) -> tuple[Tensor, Tensor]:
        """One vector a token, and one a sequence."""
        hidden = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        return hidden, self.pooler(hidden)


class BertPredictionHeadTransform(nn.Module):
    """Prepares tokens for the vocabulary."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense_act = LinearActivation(config.hidden, config.hidden, F.gelu)
        self.LayerNorm = FusedLayerNorm(config.hidden, eps=config.eps)

    def forward(self, hidden: Tensor) -> Tensor:
        """The prepared tokens."""
        return self.LayerNorm(self.dense_act(hidden))


class BertLMPredictionHead(nn.Module):
    """Guesses words; its matrix is the word embedding's."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden, config.vocabulary, bias=False)
        self.decoder.weight = words.weight
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, hidden: Tensor, masked: Tensor | None) -> Tensor:
        """Scores of every word, for the masked tokens or, if none are named, for all."""
        tokens = self.transform(hidden).flatten(0, 1)
        if masked is not None:
            tokens = tokens.index_select(0, masked)
        return self.decoder(tokens) + self.bias


class BertPreTrainingHeads(nn.Module):
    """Masked words, and whether one sentence follows the other."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config, words)
        self.seq_relationship = nn.Linear(config.hidden, 2)

    def forward(self, hidden: Tensor, pooled: Tensor, masked: Tensor | None) -> tuple[Tensor, Tensor]:
        """Scores of both tasks."""
        return self.predictions(hidden, masked), self.seq_relationship(pooled)


class Pretraining(NamedTuple):
    """Scores of both pretraining tasks."""

    words: Tensor
    follows: Tensor


class BertForPreTrainingPreLN(nn.Module):
    """Masked words and next sentences; the large model has 336,234,306 parameters."""

    def __init__(self, config: BertConfig = LARGE) -> None:
        super().__init__()
        self.bert = BertModel(config)
        self.cls = BertPreTrainingHeads(config, self.bert.embeddings.word_embeddings)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        masked: Tensor | None = None,
    ) -> Pretraining:
        """Scores of both tasks; `masked` holds the places of the masked tokens in the flattened batch."""
        mask = bert.additive_mask(input_ids, attention_mask, self.cls.seq_relationship.weight.dtype)
        hidden, pooled = self.bert(input_ids, mask, token_type_ids)
        return Pretraining(*self.cls(hidden, pooled, masked))


def inputs(batch: int, tokens: int = 128) -> dict[str, Tensor]:
    """Full sequences, of which some 11 % are masked: 1159 of 80 x 128, as in the published profile."""
    masked = torch.arange(round(1159 / 80 / 128 * batch * tokens))
    return {**bert.full_sequences(batch, tokens, LARGE.vocabulary), "masked": masked}
