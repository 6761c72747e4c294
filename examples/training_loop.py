"""A training loop that profiles one of its steps, in the words of DeepSpeed's flops profiler.

python examples/training_loop.py
"""

import torch
from torch import nn

from flopsight import FlopsProfiler


class Model(nn.Module):
    """A classifier that returns its loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, batch):
        features, labels = batch
        return self.loss(self.layers(features), labels)


def main():
    data_loader = [(torch.randn(32, 64), torch.randint(10, (32,))) for _ in range(8)]
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    prof = FlopsProfiler(model)

    profile_step = 5
    print_profile = True

    for step, batch in enumerate(data_loader):
        # start profiling at training step "profile_step"
        if step == profile_step:
            prof.start_profile()

        # forward() method
        loss = model(batch)

        # end profiling and print output
        if step == profile_step:  # if using multi nodes, check global_rank == 0 as well
            prof.stop_profile()
            flops = prof.get_total_flops()
            macs = prof.get_total_macs()
            params = prof.get_total_params()
            if print_profile:
                prof.print_model_profile(profile_step=profile_step)
            prof.end_profile()
            print(f"step {step}: {flops:,} FLOPs, {macs:,} MACs, {params:,} parameters")

        # runs backpropagation
        loss.backward()

        # weight update
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
