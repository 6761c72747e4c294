"""What the way to a number costs: CPU seconds of whole commands, in units of one `import torch`; medians of runs in turn.

python bench/targets.py [--rounds 3]

The large models need transformers; without it only the commands that need none are run.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from importlib.util import find_spec

UNIT = ("import torch", ["-c", "import torch"])
LIMITS_S = {
    "a missing file": 0.6,
    "Llama-3.1-405B, one training step": 6.0,
    "12 points of Llama-3.1-8B, training": 15.0,
}
"""Aims in CPU seconds on a quiet core, where `import torch` takes 1.0 s."""
COMMANDS = {
    "a missing file": ["profile", "absent.py:Net"],
    "a wrong argument": ["profile", f"{__file__}:main:wdth=3"],
    "targets llama": ["targets", "llama"],
    "zoo:gpt2 on meta, training": ["profile", "zoo:gpt2", "--meta", "--train"],
}
WITH_TRANSFORMERS = {
    "a wrong model type": ["profile", "hf:lama"],
    "Llama-3.1-405B, one training step": ["profile", "hf:llama-3.1-405b", "--meta", "--train"],
    "12 points of Llama-3.1-8B, training": [
        "sweep", "hf:llama-3.1-8b", "--meta", "--train", "batch=1,8,64", "seq=2k,8k,32k,64k",
    ],
    "1 point of Llama-3.1-8B, training": ["sweep", "hf:llama-3.1-8b", "--meta", "--train", "batch=1", "seq=2k"],
}  # fmt: skip
LARGE = "Llama-3.1-405B, one training step"
PLAIN = """
import sys
for name in ("torchvision", "torchaudio", "librosa", "scipy", "sklearn"):
    sys.modules[name] = None  # not needed for text, as in our command; torchvision may not fit this torch

import torch
from transformers import LlamaConfig, LlamaForCausalLM

sizes = dict(hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128)
with torch.device("meta"):
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=8, vocab_size=128256)).bfloat16()
    words = torch.empty(1, 2048, 16384, dtype=torch.bfloat16)
    mask = torch.ones(1, 1, 2048, 2048, dtype=torch.bool)  # transformers reads the values of its own, which meta has not
model(inputs_embeds=words, attention_mask=mask, use_cache=False).logits.mean().backward()
"""
"""The same step by torch alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command, in turn")
    rounds = parser.parse_args().rounds
    commands = COMMANDS | (WITH_TRANSFORMERS if find_spec("transformers") else {})
    lines = dict([UNIT, *([("plain", ["-c", PLAIN])] if LARGE in commands else [])]) | {
        name: ["-m", "flopsight", *words] for name, words in commands.items()
    }
    samples: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds):
        for name, words in lines.items():
            samples[name].append(cpu_seconds(words))
    unit = statistics.median(samples[UNIT[0]])
    print(f"`import torch` takes {unit:.2f} CPU seconds here; medians of {rounds} runs in turn")
    for name in commands:
        spent = statistics.median(samples[name])
        aim = f", aim at most {LIMITS_S[name]:.1f}" if name in LIMITS_S else ""
        print(f"{name:<40} {spent / unit:5.2f} x import torch{aim}")
    if LARGE in commands:
        turns = zip(samples[LARGE], samples["plain"], strict=True)
        ratio = statistics.median(ours / plain for ours, plain in turns)
        print(f"{'405B beside the same step by torch alone':<40} {ratio:5.2f} x, aim at most 0.95")
    whole, one = "12 points of Llama-3.1-8B, training", "1 point of Llama-3.1-8B, training"
    if whole in commands:
        further = (statistics.median(samples[whole]) - statistics.median(samples[one])) / 11
        print(f"{'a further point of Llama-3.1-8B':<40} {further / unit:5.2f} x import torch, aim at most 0.6")


def cpu_seconds(words: list[str]) -> float:
    """User and system time of one Python process, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=words[-1] == PLAIN,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
