"""Real pipelines of two and four ranks by torch's own 1F1B schedule, whose stages are also tried without the job."""

import torch
from distributed.dry_ranks import Language, tokens
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from flopsight.capture.model.model_run import ModelRun
from flopsight.engine.counting import Recording
from flopsight.engine.run_profile import Options

MICROBATCHES = 3
MESHES = {2: {"stages": {"pp": 2}}, 4: {"sharded_stages": {"pp": 2, "fsdp": 2}}}
"""Meshes by the number of ranks and the name of the job."""
BLOCKS = {0: (0, 1), 1: (2,)}
"""Of three blocks with an embedding and a head, the first of two stages has the embedding and two."""


class Part(nn.Module):
    """What one of two stages has of `Language`."""

    def __init__(self, number):
        super().__init__()
        whole = Language()
        if number == 0:
            self.embedding = whole.embedding
        self.layers = nn.ModuleDict({str(place): whole.layers[place] for place in BLOCKS[number]})
        if number == 1:
            self.head = whole.head

    def forward(self, x):
        x = self.embedding(x) if hasattr(self, "embedding") else x
        for layer in self.layers.values():
            x = layer(x)
        return self.head(x) if hasattr(self, "head") else x


def counted(mesh):
    """The third step of a pipeline: what its stages set up in the first is over."""
    ranks = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    number = ranks["pp"].get_local_rank()
    part = Part(number)
    if "fsdp" in mesh:
        for layer in part.layers.values():
            fully_shard(layer, mesh=ranks["fsdp"])
        fully_shard(part, mesh=ranks["fsdp"])
    optimizer = torch.optim.AdamW(part.parameters())
    stage = PipelineStage(part, number, 2, torch.device("cpu"), group=ranks["pp"].get_group())
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda output, _target: output.sum())
    batch = tokens().repeat(MICROBATCHES, 1)
    for _ in range(3):
        optimizer.zero_grad()
        with Recording(part, Options(memory=True, optimizers=[optimizer])) as recorded:
            if number == 0:
                schedule.step(batch, return_outputs=False)
            else:
                schedule.step(target=batch, return_outputs=False)
            optimizer.step()
            recorded.label(ModelRun(part, train=True, optimizer=optimizer))
    return recorded.profile


def _cases():
    size = distributed.get_world_size() if distributed.is_initialized() else 2
    return {name: (lambda mesh=mesh: counted(mesh)) for name, mesh in MESHES[size].items()}


CASES = _cases()
