"""Cases of whole models, for inference: published architectures and their usual parts."""

import torch
import torch.nn.functional as F
from peers.case import Case
from peers.layers import given
from torch import nn

from flopsight import zoo


def of_zoo(name, label, macs):
    """A model of the zoo with a batch of one; of token ids, labels and masks, the ids alone."""

    def args():
        positional, named = zoo.example_inputs(name, 1)
        return positional or (named["input_ids"],)

    return Case(label, "models", zoo.factory(name), args, macs)


def conv(channels_in, channels, kernel, side):
    return channels_in * channels * kernel * kernel * side * side


def resnet18():
    """A stem of 7 x 7, four stages of two blocks, three shortcuts of 1 x 1, a classifier."""
    total = conv(3, 64, 7, 112) + 4 * conv(64, 64, 3, 56) + 512 * 1000
    for channels, side in ((128, 28), (256, 14), (512, 7)):
        total += conv(channels // 2, channels, 3, side) + 3 * conv(channels, channels, 3, side)
        total += conv(channels // 2, channels, 1, side)
    return total


def resnet50():
    """Bottlenecks of 1 x 1, 3 x 3, 1 x 1; the 3 x 3 has the stride."""
    total, before = conv(3, 64, 7, 112) + 2048 * 1000, 64
    for channels, side, blocks in ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)):
        wide, first = 4 * channels, side if channels == 64 else 2 * side
        total += conv(before, channels, 1, first) + conv(before, wide, 1, side)
        total += (blocks - 1) * conv(wide, channels, 1, side)
        total += blocks * (conv(channels, channels, 3, side) + conv(channels, wide, 1, side))
        before = wide
    return total


ALEXNET = (
    conv(3, 64, 11, 55) + conv(64, 192, 5, 27) + conv(192, 384, 3, 13) + conv(384, 256, 3, 13) + conv(256, 256, 3, 13)
    + 9216 * 4096 + 4096 * 4096 + 4096 * 1000
)  # fmt: skip
TOKENS = 128
BLOCK = TOKENS * 12 * 768 * 768 + 2 * TOKENS * TOKENS * 768
"""Four projections, a feed-forward network of four times the width, scores and their mix."""
BERT = 12 * BLOCK + 768 * 768 + 768 * 2
GPT2 = 12 * BLOCK + TOKENS * 768 * 50257
GPT2_CAUSAL = GPT2 - 12 * 2 * TOKENS * TOKENS * 768 * (TOKENS - 1) // (2 * TOKENS)


class InvertedResidual(nn.Sequential):
    """The convolutions of a block of MobileNetV2: wide, depthwise, narrow."""

    def __init__(self, channels=32, wide=192):
        super().__init__(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
            nn.Conv2d(wide, channels, 1, bias=False),
        )  # fmt: skip


INVERTED = 14 * 14 * (32 * 192 + 192 * 9 + 192 * 32)


class Decoder(nn.Module):
    """A block of Llama: norms by hand, grouped queries, a gated feed-forward network."""

    def __init__(self, width=128, heads=8, few=2, inner=344):
        super().__init__()
        self.heads, self.few = heads, few
        self.q, self.k, self.v, self.o = (
            nn.Linear(width, out, bias=False) for out in (width, width * few // heads, width * few // heads, width)
        )
        self.gate, self.up, self.down = (
            nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        )  # fmt: skip

    def norm(self, x):
        return x * x.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()

    def forward(self, x):
        y = self.norm(x)
        query = self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = (part(y).unflatten(-1, (self.few, -1)).transpose(1, 2) for part in (self.k, self.v))
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.o(found.transpose(1, 2).flatten(2))
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


DECODER_PRODUCTS = 2 * 48 * (2 * 128 * 128 + 2 * 128 * 32 + 3 * 128 * 344)
DECODER_MIX = 2 * (2 * 48 * 48 * 128)


class Mixer(nn.Module):
    """A block of MLP-Mixer: one network over places, one over channels."""

    def __init__(self, places=64, channels=96):
        super().__init__()
        self.places = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.channels = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))

    def forward(self, x):
        x = x + self.places(x.transpose(1, 2)).transpose(1, 2)
        return x + self.channels(x)


class UNet(nn.Module):
    """Down once, up once by a transposed convolution, joined with what was there before."""

    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.up, self.last = nn.ConvTranspose2d(64, 32, 2, stride=2), nn.Conv2d(64, 8, 3, padding=1)

    def forward(self, x):
        wide = F.relu(self.first(x))
        return self.last(torch.cat([wide, F.relu(self.up(F.relu(self.down(wide))))], 1))


UNET = conv(3, 32, 3, 32) + conv(32, 64, 3, 16) + 16 * 16 * 64 * 32 * 4 + conv(64, 8, 3, 32)


class Seq2Seq(nn.Module):
    """An encoder and a decoder of LSTMs with attention between them."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(96, 96, batch_first=True), nn.LSTM(96, 96, batch_first=True)
        self.head = nn.Linear(2 * 96, 200, bias=False)

    def forward(self, source, target):
        seen, state = self.encoder(source)
        made, _ = self.decoder(target, state)
        mixed = (made @ seen.transpose(1, 2)).softmax(-1) @ seen
        return self.head(torch.cat([made, mixed], -1))


SEQ2SEQ = 2 * (12 + 9) * 4 * 96 * 192 + 2 * (2 * 9 * 12 * 96) + 2 * 9 * 192 * 200

CASES = [
    of_zoo("alexnet", "AlexNet", ALEXNET),
    of_zoo("resnet18", "ResNet-18", resnet18()),
    of_zoo("resnet50", "ResNet-50", resnet50()),
    of_zoo("bert-base", "BERT-base, 128 tokens", BERT),
    of_zoo("gpt2", "GPT-2, 128 tokens", (GPT2, GPT2_CAUSAL)),
    Case("a block of MobileNetV2", "models", InvertedResidual, given((1, 32, 14, 14)), INVERTED),
    Case("a block of Llama", "models", Decoder, given((2, 48, 128)),
         (DECODER_PRODUCTS + DECODER_MIX, DECODER_PRODUCTS + DECODER_MIX * 49 // 96)),
    Case("a block of MLP-Mixer", "models", Mixer, given((2, 64, 96)), 2 * (96 * 2 * 64 * 128 + 64 * 2 * 96 * 384)),
    Case("a U-Net", "models", UNet, given((1, 3, 32, 32)), UNET),
    Case("LSTMs with attention", "models", Seq2Seq, given((2, 12, 96), (2, 9, 96)), SEQ2SEQ),
]  # fmt: skip
