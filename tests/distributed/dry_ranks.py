"""Real jobs of four ranks, built by torch's own calls, for meshes that are also tried without the job."""

from collections import defaultdict
from functools import partial

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

import flopsight

WIDTH, HEADS, VOCABULARY, BATCH, LENGTH = 24, 4, 50, 2, 8
MESHES = {
    "fsdp": {"fsdp": 4},
    "tp": {"tp": 4},
    "fsdp_tp": {"fsdp": 2, "tp": 2},
    "hsdp": {"dp": 2, "fsdp": 2},
    "dp": {"dp": 4},
    "hsdp_inference": {"dp": 2, "fsdp": 2},
    "fsdp_full": {"fsdp": 4},
    "tp_full": {"tp": 4},
    "dp_full": {"dp": 4},
    "fsdp_selective": {"fsdp": 4},
    "fsdp_tp_selective": {"fsdp": 2, "tp": 2},
    "fsdp_bf16": {"fsdp": 4},
    "fsdp_bf16_full": {"fsdp": 4},
    "dp_bf16": {"dp": 4},
    "tp_bf16": {"tp": 4},
    "fsdp_bf16_reduced": {"fsdp": 4},
    "hsdp_kept": {"dp": 2, "fsdp": 2},
    "fsdp_resharded": {"fsdp": 4},
    "fsdp_pairs": {"fsdp": 4},
    "fsdp_accumulated": {"fsdp": 4},
    "tp_fused": {"tp": 4},
    "fsdp_parted": {"fsdp": 4},
    "tp_gathered": {"tp": 4},
}
"""Meshes by the name of the job."""
OPTIONS = {
    "fsdp_full": {"checkpoint": "full"},
    "tp_full": {"checkpoint": "full"},
    "dp_full": {"checkpoint": "full"},
    "fsdp_selective": {"checkpoint": "selective"},
    "fsdp_tp_selective": {"checkpoint": "selective"},
    "fsdp_bf16": {"precision": "bf16"},
    "fsdp_bf16_full": {"precision": "bf16", "checkpoint": "full", "fsdp": {"reduce": "fp32"}},
    "dp_bf16": {"precision": "bf16"},
    "tp_bf16": {"precision": "bf16"},
    "fsdp_bf16_reduced": {"precision": "bf16", "fsdp": {"reduce": "fp32"}},
    "hsdp_kept": {"fsdp": {"reshard": False}},
    "fsdp_resharded": {"fsdp": {"reshard": True}},
    "fsdp_pairs": {"fsdp": {"wrap": 2}},
    "fsdp_accumulated": {"accumulate": 2},
    "fsdp_parted": {"fsdp": {"reshard": 2}},
    "tp_gathered": {
        "tp_plan": {
            "layers.*.o": RowwiseParallel(input_layouts=Replicate()),
            "layers.*.up": "colwise_gather_output",
            "layers.*.down": "rowwise_split_input",
        }
    },
}
"""What else is asked of a dry run for a job."""


class Layer(nn.Module):
    """Attention and a feed-forward part whose widths four ranks divide; norms with a bias that three of four lack."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (part(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(x)))


class Language(nn.Module):
    _tp_plan = {
        "layers.*.q": "colwise", "layers.*.k": "colwise", "layers.*.v": "colwise", "layers.*.o": "rowwise",
        "layers.*.up": "colwise", "layers.*.down": "rowwise",
    }  # fmt: skip

    def __init__(self, depth=3):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Conv1D(nn.Module):
    """A linear layer whose weight is stored transposed, as in transformers."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.nf = outputs
        self.weight, self.bias = nn.Parameter(torch.ones(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


class FusedAttention(nn.Module):
    """Queries, keys and values from one product, under GPT-2's names."""

    def __init__(self, linear, ways):
        super().__init__()
        self.split_size = WIDTH // ways
        self.c_attn, self.c_proj = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.c_attn(x).split(self.split_size, dim=2)
        q, k, v = (part.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for part in parts)
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))


class FusedFeedForward(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.c_fc, self.c_proj = linear(WIDTH, 4 * WIDTH), linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class FusedBlock(nn.Module):
    def __init__(self, linear, ways):
        super().__init__()
        self.norm, self.attn, self.mlp = nn.LayerNorm(WIDTH), FusedAttention(linear, ways), FusedFeedForward(linear)

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)


class Fused(Language):
    """A model of GPT-2's making, without a plan of its own; `ways` ranks write its layers as nn.Linear."""

    _tp_plan = None

    def __init__(self, linear=Conv1D, ways=1):
        super().__init__()
        self.layers = nn.ModuleList(FusedBlock(linear, ways) for _ in range(2))


def tokens():
    return torch.arange(BATCH * LENGTH).remainder(VOCABULARY).view(BATCH, LENGTH)


def divided(name):
    """The model on its mesh, as a training script writes it."""
    mesh = init_device_mesh("cpu", tuple(MESHES[name].values()), mesh_dim_names=tuple(MESHES[name]))
    model, names = Language(), mesh.mesh_dim_names
    if name == "tp_fused":
        model, by_columns, by_rows = Fused(nn.Linear, 4), ColwiseParallel, RowwiseParallel
        for block in model.layers:
            parallelize_module(block.attn, mesh["tp"], {"c_attn": by_columns(), "c_proj": by_rows()})
            parallelize_module(block.mlp, mesh["tp"], {"c_fc": by_columns(), "c_proj": by_rows()})
    elif name == "tp_gathered":
        whole, split = ColwiseParallel(output_layouts=Replicate()), RowwiseParallel(input_layouts=Replicate())
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], {"o": split, "up": whole, "down": split})
    elif "tp" in names:
        styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
        plan = {path.removeprefix("layers.*."): styles[style]() for path, style in Language._tp_plan.items()}
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], plan)
    if name.endswith("full"):
        apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Layer))
    if name.endswith("selective"):
        wrapper = partial(checkpoint_wrapper, context_fn=every_second_product)
        apply_activation_checkpointing(model, wrapper, lambda module: isinstance(module, Layer))
    if "fsdp" in names:
        over = mesh["dp", "fsdp"] if "dp" in names else mesh["fsdp"]
        how = {"mesh": over} | SHARDING.get(name, {})
        layers = list(model.layers)
        for unit in [layers[:2], layers[2]] if name == "fsdp_pairs" else layers:
            fully_shard(unit, **how)
        return fully_shard(model, **how)
    if name.endswith("bf16"):
        model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    return DistributedDataParallel(model, device_mesh=mesh["dp"]) if "dp" in names else model


SHARDING = {
    "fsdp_bf16": {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)},
    "fsdp_bf16_full": {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)},
    "fsdp_bf16_reduced": {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)},
    "hsdp_kept": {"reshard_after_forward": False},
    "fsdp_resharded": {"reshard_after_forward": True},
    "fsdp_parted": {"reshard_after_forward": 2},
}


def every_second_product():
    """Keep attention and every second product, as torchtitan does."""
    products = defaultdict(int)

    def keep(context, op, *args, **kwargs):
        if op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            products[context.is_recompute] += 1
            return (
                CheckpointPolicy.MUST_SAVE if products[context.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
            )
        attends = op is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
        return CheckpointPolicy.MUST_SAVE if attends else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(keep)


def counted(name):
    """The second step of a job: what libraries set up in the first is over."""
    model = divided(name)
    if name.endswith("inference"):
        with torch.no_grad():
            return [flopsight.count(model, (tokens(),)) for _ in range(2)][-1]
    optimizer = torch.optim.AdamW(model.parameters())
    if name == "fsdp_accumulated":
        return two_micro_batches(model, optimizer)
    return [flopsight.count(model, (tokens(),), train=True, optimizer=optimizer) for _ in range(2)][-1]


def two_micro_batches(model, optimizer):
    """The third step of a loop that adds the gradients of two micro-batches up."""
    for _ in range(3):
        optimizer.zero_grad()
        inputs = tokens()
        with flopsight.recording(model) as recorded:
            for _ in range(2):
                model(inputs).sum().backward()
            optimizer.step()
    return recorded.profile


CASES = {name: (lambda name=name: counted(name)) for name in MESHES}
