"""A language model trained with transformers' Trainer: clipping, a schedule, checkpoints; by choice more batches a step,
evaluations, and batches that grow by a token each.
"""

import argparse
from itertools import count
from tempfile import TemporaryDirectory

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

LAYERS, HIDDEN, INNER, HEADS, WORDS = 2, 32, 64, 4, 96
BATCH, TOKENS = 4, 16


class Tell(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print(
            "step", state.global_step, {name: logs[name] for name in ("loss", "grad_norm", "eval_loss") if name in logs}
        )


class Growing:
    """Puts samples together, the first batch with half the tokens, each with one more than the one before."""

    def __init__(self):
        self.lengths = count(TOKENS // 2)

    def __call__(self, samples):
        length = min(next(self.lengths), TOKENS)
        return {name: torch.stack([sample[name][:length] for sample in samples]) for name in samples[0]}


def make_model():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=HIDDEN,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            max_position_embeddings=TOKENS,
            attention_dropout=0.1,
            use_cache=False,
        )
    )


def rows(number):
    ids = torch.randint(WORDS, (number, TOKENS), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--growing", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        every = chosen.evaluate_every
        evaluations = {"eval_strategy": "steps", "eval_steps": every} if every else {}
        arguments = TrainingArguments(
            folder,
            max_steps=8,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=chosen.accumulate,
            learning_rate=1e-3,
            warmup_steps=2,
            logging_steps=1,
            save_strategy="steps",
            save_steps=4,
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
            seed=3,
            **evaluations,
        )
        trainer = Trainer(
            make_model(),
            arguments,
            data_collator=Growing() if chosen.growing else None,
            train_dataset=rows(8 * BATCH * chosen.accumulate),
            eval_dataset=rows(BATCH),
            callbacks=[Tell()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
