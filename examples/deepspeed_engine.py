"""A DeepSpeed engine that prints our profile of its second step, by the `flops_profiler` block of its configuration.

pip install deepspeed
deepspeed examples/deepspeed_engine.py
DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 examples/deepspeed_engine.py      # without a GPU
"""

import deepspeed
import torch
from torch import nn

import flopsight.integrations.deepspeed  # noqa: F401  the one line that makes the engine use our profiler

CONFIG = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "flops_profiler": {"enabled": True, "profile_step": 1, "module_depth": -1, "top_modules": 3, "detailed": True},
}


class Model(nn.Module):
    """A classifier that returns its loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, features, labels):
        return nn.functional.cross_entropy(self.layers(features), labels)


def main():
    model = Model()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    for _ in range(8):
        features, labels = torch.randn(16, 64), torch.randint(10, (16,))
        loss = engine(features.to(engine.device), labels.to(engine.device))
        engine.backward(loss)
        engine.step()
    if engine.global_rank == 0:
        print(f"{engine.flops_profiler.profile.macs:,} MACs a step and rank")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
