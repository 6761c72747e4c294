"""Data-parallel training, to be started with torchrun."""

import gc
import os

import torch
from torch import distributed, nn


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 2))


def main(steps: int = 8) -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(steps):
        loss = model(torch.randn(3, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {os.environ['LOCAL_RANK']} step {step} loss {loss.item()!r}\n", end="", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
