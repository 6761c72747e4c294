"""A script that forks in the middle of a step and trains on in both processes."""

import os

import torch
from torch import nn


def say(line: str) -> None:
    print(f"{line}\n", end="", flush=True)  # in one piece, whoever else prints


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    child = None
    for step in range(9):
        if step == 5:
            child = os.fork()
        loss = model(torch.randn(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if child != 0:
            say(f"step {step} loss {loss.item():.17g}")
    if child == 0:
        say(f"child {torch._C._len_torch_dispatch_stack()} {loss.item():.17g}")
    else:
        os.waitpid(child, 0)


main()
