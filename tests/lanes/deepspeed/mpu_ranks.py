"""Two ranks of a DeepSpeed engine whose `mpu` says that they share every tensor; each rank has half of a Pair.

torchrun --nproc-per-node 2 mpu_ranks.py FOLDER
"""

import gc
import os
import pickle
import sys
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"
sys.path.insert(0, str(Path(__file__).parents[2]))

import deepspeed  # noqa: E402
import torch  # noqa: E402
from distributed.nets import BATCH, INNER, WIDTH, batch  # noqa: E402
from torch import distributed, nn  # noqa: E402

import flopsight  # noqa: E402

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo, where a compiler would build its substitute


class ModelParallelUnit:
    """What DeepSpeed asks of an `mpu`: both ranks share a model, and each has its batches to itself."""

    def __init__(self):
        alone = [distributed.new_group([rank]) for rank in range(2)]
        self.model = distributed.new_group([0, 1])
        self.data = alone[distributed.get_rank()]

    def get_model_parallel_rank(self):
        return distributed.get_rank(self.model)

    def get_model_parallel_world_size(self):
        return distributed.get_world_size(self.model)

    def get_model_parallel_group(self):
        return self.model

    def get_data_parallel_rank(self):
        return distributed.get_rank(self.data)

    def get_data_parallel_world_size(self):
        return distributed.get_world_size(self.data)

    def get_data_parallel_group(self):
        return self.data


class Summed(torch.autograd.Function):
    """Adds the halves of a product up; every rank needs the whole gradient."""

    @staticmethod
    def forward(ctx, half, group):
        whole = half.clone()
        distributed.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class HalfPair(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.up = nn.Linear(WIDTH, INNER // 2, bias=False)
        self.down = nn.Linear(INNER // 2, WIDTH, bias=False)
        self.group = group

    def forward(self, x):
        return Summed.apply(self.down(torch.relu(self.up(x))), self.group)


def main():
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo", verbose=False)
    unit = ModelParallelUnit()
    model = HalfPair(unit.model)
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings, mpu=unit)
    counted = flopsight.count(engine, (batch(),))
    with flopsight.recording(engine) as recorded:
        engine.backward(engine(batch()).sum())
        engine.step()
    try:
        flopsight.count(engine, (batch(),), train=True)
    except flopsight.FlopsightError as problem:
        said = str(problem)
    found = {"counted": counted, "recorded": recorded.profile, "said": said, "text": counted.render("deepspeed")}
    (Path(sys.argv[1]) / f"{distributed.get_rank()}.pickle").write_bytes(pickle.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


main()
gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
