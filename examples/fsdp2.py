"""FSDP2 on several processes: what each rank does, what the whole model is, and what travels between them.

torchrun --nproc-per-node 2 examples/fsdp2.py
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import flopsight


class Block(nn.Module):
    """A feed-forward block with a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output, added to its input."""
        return x + self.down(torch.relu(self.up(self.norm(x))))


def main() -> None:
    """Shard a small model, profile a training step on every rank, and let rank 0 print the job."""
    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("dp",))
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(64) for _ in range(4)))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)

    profile = flopsight.profile(model, (torch.randn(32, 64),), train=True, repeats=3)
    job = flopsight.gather(profile)  # every rank calls it; rank 0 gets the job
    if job is not None:
        print(job)
        print(f"this rank holds {profile.params:,} of {profile.whole.params:,} parameters")
        for row in profile.comm:
            print(
                f"{row.phase:>8} {row.op:>14} x {row.calls}: {row.bytes:,} B handed in, {row.wire_bytes:,} B sent, over {row.dim}"
            )
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
