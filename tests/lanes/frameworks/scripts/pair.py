"""One of several processes that train together, with a callback of ours or without: python pair.py FRAMEWORK [--plain]

Rank 1 has smaller batches than rank 0. Every rank prints its losses and saves the profile that it has made of itself.
"""

import gc
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import classifier
import lightning.pytorch as pl
import torch
import trainer as llama
from accelerate import Accelerator
from torch.nn import functional as F
from transformers import Trainer, TrainerCallback, TrainingArguments

import flopsight.integrations.accelerate as with_accelerate
import flopsight.integrations.lightning as with_lightning
import flopsight.integrations.transformers as with_transformers

RANK = int(os.environ["RANK"])
TOKENS = llama.TOKENS - 4 * RANK
SIDE = classifier.SIZE - 2 * RANK
BATCHES = 6
OPTIONS = {"steps": range(1, 4), "save_to": "profile.json"}
PLAIN = "--plain" in sys.argv


def cut(samples):
    return {name: torch.stack([sample[name][:TOKENS] for sample in samples]) for name in samples[0]}


def tell(loss):
    sys.stdout.write(f"rank {RANK} loss {float(loss)!r}\n")  # in one piece: the ranks share a terminal
    sys.stdout.flush()


class Tell(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            tell(logs["loss"])


def transformers():
    settings = TrainingArguments(
        "checkpoints",
        max_steps=BATCHES,
        per_device_train_batch_size=llama.BATCH,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        ddp_backend="gloo",
        disable_tqdm=True,
        report_to="none",
    )
    data = llama.rows(2 * BATCHES * llama.BATCH)
    trainer = Trainer(llama.make_model(), settings, data_collator=cut, train_dataset=data, callbacks=[Tell()])
    callback = with_transformers.FlopsightCallback(**OPTIONS)
    if not PLAIN:
        callback.attach(trainer)
    trainer.train()
    return callback.profile


def accelerate():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = llama.make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    samples = llama.rows(2 * 2 * BATCHES * llama.BATCH)
    data = torch.utils.data.DataLoader(samples, batch_size=llama.BATCH, collate_fn=cut)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)

    def train(after_batch):
        for batch in data:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            tell(loss)
            after_batch()

    if PLAIN:
        train(lambda: None)
        return None
    with with_accelerate.step_profiler(accelerator, model, optimizer, **OPTIONS) as prof:
        train(prof.step)
    return prof.profile


class Classifier(classifier.Classifier):
    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self.network(batch[0]), batch[1])
        tell(loss)
        return loss


def lightning():
    pl.seed_everything(7)
    callback = with_lightning.FlopsightCallback(**OPTIONS)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[] if PLAIN else [callback],
    )
    batches = [(images[:, :, :SIDE, :SIDE], labels) for images, labels in classifier.batches(BATCHES, 1)]
    trainer.fit(Classifier(), torch.utils.data.DataLoader(batches, batch_size=None))
    return callback.profile


torch.set_num_threads(1)
profile = {"transformers": transformers, "accelerate": accelerate, "lightning": lightning}[sys.argv[1]]()
if profile is not None:
    profile.save(f"rank{RANK}.json")
    if RANK == 0:
        print(profile, file=sys.stderr)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
