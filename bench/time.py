"""What timing costs: the pass with marks against the plain run, on models that wait for the host.

    python bench/time.py        # ResNet-50 (batch 1, 32x32), BERT and Llama (16 tokens), an empty module

Medians of interleaved runs in one process; a sample is dropped when other work shared the cores with it.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

from flopsight.capture.clock import user_time
from flopsight.capture.timing import Timer

REPEATS = 40
TARGET, EMPTY_TARGET = 1.06, 1.0


def resnet50():
    from flopsight.zoo.resnet import resnet50 as make

    return make(), {"x": torch.randn(1, 3, 32, 32)}


def bert():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(num_hidden_layers=4)), {"input_ids": torch.randint(0, 1000, (1, 16))}


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=3,
        vocab_size=8000, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": torch.randint(0, 1000, (1, 16))}


def sample(run):
    """Seconds of CPU time, or None when the core was shared."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return cpu if wall <= 1.15 * cpu else None


def ratio(plain, timed):
    """Median of timed over median of plain, runs in turn."""
    samples = {plain: [], timed: []}
    for run in (plain, timed):
        run()
    for _ in range(REPEATS):
        for run, found in samples.items():
            seconds = sample(run)
            if seconds is not None:
                found.append(seconds)
    return median(samples[timed]) / median(samples[plain]), min(map(len, samples.values()))


class Empty(nn.Module):
    def forward(self, x):
        return x


def main():
    torch.set_num_threads(1)
    print(f"{'model':12} {'timed/plain':>12} {'target':>8}")
    for name, make in (("ResNet-50", resnet50), ("BERT", bert), ("Llama", llama)):
        try:
            model, kwargs = make()
        except ImportError as problem:
            print(f"{name:12} left out: {problem}")
            continue
        model.eval()
        timer = Timer(model, user_time)

        def plain(model=model, kwargs=kwargs):
            with torch.no_grad():
                model(**kwargs)

        def timed(timer=timer, plain=plain):
            with timer.running():
                plain()

        found, kept = ratio(plain, timed)
        print(f"{name:12} {found:12.3f} {TARGET:8.2f}   ({kept} of {REPEATS} samples)")
    empties = nn.ModuleList(Empty() for _ in range(1000))

    def calls():
        for empty in empties:
            empty(1)

    costs = []
    for _ in range(REPEATS):
        begin = time.process_time()
        calls()
        middle = time.process_time()
        with Timer(empties, user_time).running():
            calls()
        costs.append((time.process_time() - middle) - (middle - begin))
    print(f"{'empty call':12} {median(costs) * 1e3:9.2f} us {EMPTY_TARGET:8.2f}")


if __name__ == "__main__":
    main()
