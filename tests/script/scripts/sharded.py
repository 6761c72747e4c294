"""Two ranks with gloo that share the parameters."""

import gc
import sys

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batches = torch.Generator().manual_seed(distributed.get_rank())
    for step in range(9):
        loss = model(torch.randn(3, 8, generator=batches)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"rank {distributed.get_rank()} step {step} loss {loss.item()!r}\n")  # in one piece
        sys.stdout.flush()
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
