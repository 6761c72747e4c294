"""Puts a counter of its own over nn.Module.__call__, and closes stdout at the end."""

import sys

import torch
from torch import nn

calls = 0
plain = nn.Module.__call__


def counting(self, *args, **kwargs):
    global calls
    calls += 1
    return plain(self, *args, **kwargs)


nn.Module.__call__ = counting

model = nn.Linear(4, 2)
for _ in range(6):
    model(torch.ones(3, 4))
print(f"{calls} calls")
sys.stdout.close()
