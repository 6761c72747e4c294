"""What torch itself has: recurrent layers, attention, transformer layers, bags of embeddings."""

from functools import partial

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from architectures.entry import Architecture, Example

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 16, 32


class Cells(nn.Module):
    """One step at a time, by hand."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(WIDTH, HIDDEN), nn.GRUCell(HIDDEN, HIDDEN), nn.RNNCell(HIDDEN, 8)

    def forward(self, x):
        h = c = g = torch.zeros(BATCH, HIDDEN)
        r = torch.zeros(BATCH, 8)
        for step in x:
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            r = self.rnn(g, r)
        return r


class Packed(nn.Module):
    """Sequences of several lengths."""

    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(WIDTH, HIDDEN, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


class SelfAttention(nn.MultiheadAttention):
    """One tensor as query, key and value."""

    def forward(self, x):
        return super().forward(x, x, x)[0]


def sequence(kind, **options):
    return Example(kind(WIDTH, HIDDEN, **options), (torch.randn(STEPS, BATCH, WIDTH),))


def packed(kind):
    return Example(Packed(kind), (torch.randn(BATCH, STEPS, WIDTH), torch.tensor([2, 5, 3])))


def encoder(padded):
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(HIDDEN, 4, 64, batch_first=True), 2)
    mask = torch.arange(8) >= torch.tensor([[8], [5]])
    return Example(layers, (torch.randn(2, 8, HIDDEN),), {"src_key_padding_mask": mask} if padded else {})


def transformer():
    return Example(
        nn.Transformer(HIDDEN, 4, 2, 2, 64, batch_first=True), (torch.randn(2, 8, HIDDEN), torch.randn(2, 6, HIDDEN))
    )


def bag():
    return Example(nn.Sequential(nn.EmbeddingBag(50, WIDTH), nn.Linear(WIDTH, 4)), (torch.randint(0, 50, (4, 6)),))


LSTMS = {
    "LSTM, two layers, both ways": {"num_layers": 2, "bidirectional": True},
    "LSTM with dropout": {"num_layers": 2, "dropout": 0.1, "batch_first": True},
}
ARCHITECTURES = [
    *(
        Architecture(name, "torch", partial(sequence, nn.LSTM, **options))
        for name, options in LSTMS.items()
    ),
    Architecture("LSTM with projection", "torch", partial(sequence, nn.LSTM, proj_size=8)),
    Architecture("GRU", "torch", partial(sequence, nn.GRU, num_layers=2)),
    Architecture("RNN", "torch", partial(sequence, nn.RNN)),
    Architecture("packed LSTM", "torch", partial(packed, nn.LSTM)),
    Architecture("packed GRU", "torch", partial(packed, nn.GRU)),
    Architecture("recurrent cells", "torch", lambda: Example(Cells(), (torch.randn(STEPS, BATCH, WIDTH),))),
    Architecture("MultiheadAttention", "torch", lambda: Example(
        SelfAttention(HIDDEN, 4, batch_first=True), (torch.randn(2, 8, HIDDEN),)
    )),
    Architecture("TransformerEncoder", "torch", partial(encoder, padded=False)),
    Architecture("TransformerEncoder, padded", "torch", partial(encoder, padded=True),
                 no_inference_twin="it runs on nested tensors, which meta lacks"),
    Architecture("Transformer", "torch", transformer),
    Architecture("EmbeddingBag", "torch", bag),
]  # fmt: skip
