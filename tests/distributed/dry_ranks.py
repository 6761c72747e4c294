"""Real jobs of four ranks, built by torch's own calls, for meshes that are also tried without the job."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import flopsight

WIDTH, HEADS, VOCABULARY, BATCH, LENGTH = 24, 4, 50, 2, 8
MESHES = {
    "fsdp": {"fsdp": 4},
    "tp": {"tp": 4},
    "fsdp_tp": {"fsdp": 2, "tp": 2},
    "hsdp": {"dp": 2, "fsdp": 2},
    "dp": {"dp": 4},
    "hsdp_inference": {"dp": 2, "fsdp": 2},
}


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


def tokens():
    return torch.arange(BATCH * LENGTH).remainder(VOCABULARY).view(BATCH, LENGTH)


def divided(name):
    """The model on its mesh, as a training script writes it."""
    mesh = init_device_mesh("cpu", tuple(MESHES[name].values()), mesh_dim_names=tuple(MESHES[name]))
    model, names = Language(), mesh.mesh_dim_names
    if "tp" in names:
        styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
        plan = {path.removeprefix("layers.*."): styles[style]() for path, style in Language._tp_plan.items()}
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], plan)
    if "fsdp" in names:
        over = mesh["dp", "fsdp"] if "dp" in names else mesh["fsdp"]
        for layer in model.layers:
            fully_shard(layer, mesh=over)
        return fully_shard(model, mesh=over)
    return DistributedDataParallel(model, process_group=mesh["dp"].get_group()) if "dp" in names else model


def counted(name):
    """The second step of a job: what libraries set up in the first is over."""
    model = divided(name)
    if name.endswith("inference"):
        with torch.no_grad():
            return [flopsight.count(model, (tokens(),)) for _ in range(2)][-1]
    optimizer = torch.optim.AdamW(model.parameters())
    return [flopsight.count(model, (tokens(),), train=True, optimizer=optimizer) for _ in range(2)][-1]


CASES = {name: (lambda name=name: counted(name)) for name in MESHES}
