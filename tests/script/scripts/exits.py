"""A script that says how it went by its exit code."""

import sys

import torch
from torch import nn

model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
code = sys.argv[1]
sys.exit(int(code) if code.lstrip("-").isdigit() else code)
