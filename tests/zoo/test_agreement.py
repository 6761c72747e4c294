"""torch's own counter agrees with the arithmetic on every embedded model, so the models are what they say they are."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from zoo.published import macs_text, rows

from flopsight import zoo

LENET5 = 1024 * (28 * 28 * 6 * 25 + 10 * 10 * 16 * 25 * 6 + 120 * 25 * 16 + 120 * 84 + 84 * 10)
ALEXNET = 256 * (
    55 * 55 * 64 * 3 * 121 + 27 * 27 * 192 * 64 * 25
    + 13 * 13 * 9 * (384 * 192 + 256 * 384 + 256 * 256)
    + 9216 * 4096 + 4096 * 4096 + 4096 * 1000
)  # fmt: skip
BERT_BASE = 12 * 4 * 128 * (4 * 768 * 768 + 2 * 768 * 3072) + 4 * (768 * 768 + 768 * 2)
BERT_BASE_ATTENTION = 12 * 2 * 4 * 128 * 128 * 768
GPT2 = 128 * (12 * 12 * 768 * 768 + 768 * 50257) + 12 * 2 * 128 * 128 * 768

MACS = {
    "lenet5": (LENET5, 426_516_480),
    "alexnet": (ALEXNET, 182_832_250_880),
    "bert-base": (BERT_BASE + BERT_BASE_ATTENTION, 44_696_868_864),
    "gpt2": (GPT2, GPT2),
}


def flops_by_module(name):
    """FLOPs by module path; the counter prefixes each with the class of the root."""
    entry = next(entry for entry in zoo.entries() if entry.name == name)
    with torch.device("meta"):
        model, args, kwargs = zoo.build(name, entry.published_batch)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(*args, **kwargs)
    root = type(model).__name__
    counts = {path: sum(ops.values()) for path, ops in counter.get_flop_counts().items()}
    return {path: counts.get(f"{root}.{path}" if path else root, 0) for path, _ in model.named_modules()}


@pytest.mark.parametrize("name", MACS)
def test_macs_are_what_the_layers_add_up_to(name):
    arithmetic, published = MACS[name]

    assert flops_by_module(name)[""] // 2 == arithmetic == published


@pytest.mark.parametrize("name", ["pointnet", "resnet18"])
def test_every_module_has_the_printed_macs(name):
    counted = {path: macs_text(flops // 2) for path, flops in flops_by_module(name).items()}

    assert counted == {path: row["macs"] for path, row in rows(name).items()}
