"""What timing costs: the pass with marks against the plain run, on models that wait for the host.

    python bench/time.py        # ResNet-50 (batch 1, 32x32), BERT and Llama (16 tokens), an empty module

Medians of interleaved runs in one process; a sample is dropped when other work shared the cores with it.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from statistics import median
from time import perf_counter

import torch
from torch import nn

from flopsight.capture.time.backward_marks import BackwardTimes
from flopsight.capture.time.clock import user_time
from flopsight.capture.time.module_marks import Timer

REPEATS = 40
TARGET, EMPTY_TARGET = 1.06, 1.0


def resnet50():
    from flopsight.zoo.resnet import resnet50 as make

    return make(), {"images": torch.randn(1, 3, 32, 32)}


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


def ratio(plain, marks):
    """Median of runs with marks over median of plain ones, in turn, and how many samples each has at least."""
    samples = [], []
    for _ in range(REPEATS + 1):
        for found, around in zip(samples, (nullcontext, marks), strict=True):
            with around():
                found.append(sample(plain))
    plain_runs, timed_runs = ([seconds for seconds in found[1:] if seconds is not None] for found in samples)
    return median(timed_runs) / median(plain_runs), min(len(plain_runs), len(timed_runs))


def backward_ratio(model, kwargs):
    """The same for backwards, whose every node has marks; the time of putting them on is on no clock of ours."""
    samples = [], []
    timer = Timer(model.eval(), user_time)  # one image is no batch to take statistics of
    with timer.running(sequences=True):
        for _ in range(REPEATS // 2 + 1):
            for found, around in zip(samples, (nullcontext, BackwardTimes(timer, user_time).running), strict=True):
                loss = model(**kwargs).sum()
                with around():
                    begin = user_time()
                    loss.backward()
                    found.append(user_time() - begin)
    plain_runs, timed_runs = samples
    return median(timed_runs[1:]) / median(plain_runs[1:])


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

        def plain(model=model, kwargs=kwargs):
            with torch.no_grad():
                model(**kwargs)

        found, kept = ratio(plain, Timer(model, perf_counter).running)
        print(f"{name:12} {found:12.3f} {TARGET:8.2f}   ({kept} of {REPEATS} samples)")
    found = backward_ratio(*resnet50())
    print(f"{'ResNet-50':12} {found:12.3f} {'':8}   (backward, marks on every node)")
    empties = nn.ModuleList(Empty() for _ in range(1000))

    def calls():
        for empty in empties:
            empty(1)

    costs = []
    for _ in range(REPEATS):
        begin = time.process_time()
        calls()
        plain = time.process_time() - begin
        with Timer(empties, perf_counter).running():
            begin = time.process_time()
            calls()
            costs.append(time.process_time() - begin - plain)
    print(f"{'empty call':12} {median(costs) * 1e3:9.2f} us {EMPTY_TARGET:8.2f}")


if __name__ == "__main__":
    main()
