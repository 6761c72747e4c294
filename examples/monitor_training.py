"""FLOPs, time and memory of every step of a training loop, with lines in a file that `flopsight show` opens.

python examples/monitor_training.py && flopsight show run.jsonl
"""

import torch
from torch import nn

import flopsight


def main(file="run.jsonl"):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    with flopsight.monitor(model, optimizer, every=5, to=[file]) as live:
        for _ in range(20):
            loss = nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(10, (32,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print(live.summary())
    return flopsight.load(file)


if __name__ == "__main__":
    main()
