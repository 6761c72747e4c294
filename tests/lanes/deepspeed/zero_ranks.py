"""Two ranks of real DeepSpeed engines, ZeRO 0 to 3: what counting and recording show. One job, one pickle a rank.

torchrun --nproc-per-node 2 zero_ranks.py FOLDER
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
from distributed.nets import BATCH, batch, net  # noqa: E402

import flopsight  # noqa: E402

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo, where a compiler would build its substitute


def engine(stage):
    model = net()
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    made, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
    return made


def seen(stage):
    trained, x = engine(stage), batch()
    for _ in range(2):
        trained.backward(trained(x).sum())
        trained.step()
    with flopsight.recording(trained) as recorded:
        trained.backward(trained(x).sum())
        trained.step()
    counted = flopsight.profile(trained, (x,), train=True)
    return {"recorded": recorded.profile, "counted": counted, "text": counted.render("deepspeed")}


def main():
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo", verbose=False)
    torch.manual_seed(0)
    found = {stage: seen(stage) for stage in range(4)}
    rank = torch.distributed.get_rank()
    (Path(sys.argv[1]) / f"{rank}.pickle").write_bytes(pickle.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


main()
gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
