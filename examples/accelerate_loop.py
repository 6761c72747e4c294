"""A loop of your own that Accelerate runs, with gradient accumulation, and a window of its steps profiled.

pip install accelerate
python examples/accelerate_loop.py
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from flopsight.integrations.accelerate import step_profiler


def main():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randn(512, 64), torch.randint(10, (512,)))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=16))

    with step_profiler(accelerator, model, optimizer, steps=range(2, 7)) as prof:
        for features, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(features), labels))
                optimizer.step()
                optimizer.zero_grad()
            prof.step()  # after every batch; a step is over when gradients were synchronized

    print(prof.profile)
    print(f"{prof.profile.macs:,} MACs a step")


if __name__ == "__main__":
    main()
