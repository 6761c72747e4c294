"""A training loop that somebody stops with Ctrl-C."""

import os
import signal
import sys

import torch
from torch import nn

STOP = int(sys.argv[1])


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        optimizer.zero_grad()
        loss = model(torch.randn(3, 6)).square().mean()
        loss.backward()
        if step == STOP:
            os.kill(os.getpid(), signal.SIGINT)
        optimizer.step()
        print(f"step {step} loss {loss.item():.17g}")


main()
