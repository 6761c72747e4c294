"""A Llama trained with transformers' Trainer over a DeepSpeed engine: python trainer_script.py FOLDER STAGE [BLOCK]

BLOCK is the `flops_profiler` block of the configuration, as JSON. The one line about us is an import.
"""

import gc
import json
import os
import sys
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"
sys.path.insert(0, str(Path(__file__).parents[2]))

import deepspeed  # noqa: E402
import torch  # noqa: E402
from lanes.frameworks import tiny_llama  # noqa: E402
from transformers import Trainer, TrainingArguments  # noqa: E402

import flopsight.integrations.deepspeed  # noqa: E402, F401

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo, where a compiler would build its substitute
torch.set_num_threads(1)

folder, stage = Path(sys.argv[1]), int(sys.argv[2])
config = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}},
    "zero_optimization": {"stage": stage},
}
if len(sys.argv) > 3:
    config["flops_profiler"] = json.loads(sys.argv[3])
arguments = TrainingArguments(
    str(folder / "checkpoints"),
    max_steps=4,
    per_device_train_batch_size=tiny_llama.BATCH,
    gradient_accumulation_steps=2,
    logging_steps=1,
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
    report_to="none",
    deepspeed=config,
)
trainer = Trainer(tiny_llama.model(), arguments, train_dataset=tiny_llama.dataset(64))
trainer.train()

losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
(folder / "losses.json").write_text(json.dumps(losses))
if len(sys.argv) > 3:
    trainer.model_wrapped.flops_profiler.profile.save(folder / "profile.json")
torch.distributed.destroy_process_group()
gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
