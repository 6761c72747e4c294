"""The models that bench/bound.py holds against their limits; those of libraries need transformers and torchvision."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


def on(device, dtype, make, *, train=False, last=False):
    """A model and its inputs on the device, without a second copy in the host's memory."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model, inputs = make()
    finally:
        torch.set_default_dtype(before)
    model = model.to(device, dtype).train(train)
    if last:
        model = model.to(memory_format=torch.channels_last)
        inputs = {
            name: x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for name, x in inputs.items()
        }
    return model, inputs


def tokens(batch, length, vocabulary=30000):
    """Ids from the whole vocabulary: a table of which few rows are read stays in the cache."""
    return torch.randint(0, vocabulary, (batch, length))


def images(batch, side=224):
    return torch.randn(batch, 3, side, side)


def llama(layers=32, width=4096, inner=14336, heads=32, kv=8, vocab=128256, batch=1, length=4096, **more):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
        vocab_size=vocab, use_cache=False, **more,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": tokens(batch, length, vocab)}


def bert(width=1024, layers=24, batch=80, length=128, **more):
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        **more,
    )
    return BertModel(config), {"input_ids": tokens(batch, length)}


def gpt2(batch=1, length=128, **more):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False, **more)), {"input_ids": tokens(batch, length)}


def vision(name, batch, side=224):
    import torchvision

    return getattr(torchvision.models, name)(), {"x": images(batch, side)}


class Block(nn.Module):
    """A transformer block, for machines without transformers; `fused` chooses how it attends."""

    def __init__(self, width, heads, *, fused=True):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.fused = heads, fused

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def blocks(layers=2, width=256, heads=4, batch=4, length=128, *, fused=True):
    return nn.Sequential(*(Block(width, heads, fused=fused) for _ in range(layers))), {
        "input": torch.randn(batch, length, width)
    }


def convolutions(batch=4, channels=32, side=32):
    layers = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(3):
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)]
    return nn.Sequential(*layers), {"input": torch.randn(batch, 3, side, side)}


class Attend(nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)


class Add(nn.Module):
    def forward(self, x, y):
        return x + y
