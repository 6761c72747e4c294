"""A small Llama trained by transformers' Trainer, with a window of its steps profiled.

pip install transformers accelerate tensorboard
python examples/trainer_llama.py
"""

import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from flopsight.integrations.transformers import FlopsightCallback


def main():
    folder = Path(tempfile.mkdtemp())
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )
    ids = torch.randint(256, (128, 32))
    trainer = Trainer(
        model,
        TrainingArguments(
            output_dir=str(folder),
            max_steps=8,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            report_to="tensorboard",  # the figures appear there as train/flopsight/mfu and so on
            use_cpu=not torch.cuda.is_available(),
            disable_tqdm=True,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in ids],
    )

    # steps are optimizer steps, counted from 0; attach() puts the callback ahead of TensorBoard's
    callback = FlopsightCallback(steps=range(2, 6), save_to=folder / "profile.json").attach(trainer)
    trainer.train()

    print(callback.profile)
    print(f"{callback.profile.macs:,} MACs a step, saved in {folder / 'profile.json'}")


if __name__ == "__main__":
    main()
