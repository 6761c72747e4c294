"""Training in a process that the script spawns, as launchers do."""

import torch
from torch import multiprocessing, nn


def train(rank: int) -> None:
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        loss = model(torch.randn(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item():.17g}", flush=True)


if __name__ == "__main__":
    multiprocessing.spawn(train, nprocs=1)
