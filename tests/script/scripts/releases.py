"""A script that is careful with its memory: what it deletes is to be gone at once, without the garbage collector."""

import gc
import weakref

import torch
from torch import nn

gc.disable()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(9):
        x = torch.randn(3, 6)
        output = model(x)
        kept = [weakref.ref(one) for one in (x, output, model, optimizer, model[0].weight)]
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        del x, output
        if step == 8:
            del model, optimizer
        print(step, [reference() is None for reference in kept])


main()
