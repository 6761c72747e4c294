"""A model that fails in the middle of a forward."""

import sys

import torch
from torch import nn

FAIL = int(sys.argv[1])


class Fragile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.second = nn.Linear(5, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.calls == FAIL:
            raise ValueError("nan in the input")
        self.calls += 1
        return self.second(x)


def main() -> None:
    torch.set_num_threads(1)
    model = Fragile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        loss = model(torch.ones(3, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}")


main()
