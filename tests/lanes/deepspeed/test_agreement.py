"""DeepSpeed's own profiler and ours on the same models: equal parameters, equal MACs, FLOPs apart by what it leaves out."""

import pytest
import torch
from deepspeed.profiling.flops_profiler import get_model_profile as deepspeeds_profile

import flopsight
from flopsight import zoo

TOKENS, HIDDEN, LAYERS, HEADS = 128, 768, 12, 12
SCORES = LAYERS * HEADS * TOKENS * TOKENS
BIASES = LAYERS * TOKENS * (4 * HIDDEN + 4 * HIDDEN + HIDDEN)  # four projections, the wide layer, the narrow one
RESIDUALS = LAYERS * 2 * TOKENS * HIDDEN

LEFT_OUT = {
    # per image: tanh after three convolutions and one layer, and the biases of two layers
    "lenet5": 6 * 28 * 28 + 16 * 10 * 10 + 120 + 84 + (84 + 10),
    # per image: the biases of three layers
    "alexnet": 4096 + 4096 + 1000,
    # per image: two residual additions in each of four stages, and the bias of the classifier
    "resnet18": 2 * (64 * 56 * 56 + 128 * 28 * 28 + 256 * 14 * 14 + 512 * 7 * 7) + 1000,
    # biases, residual additions, the sum of three embeddings; scores are scaled, masked and put through a softmax of
    # five FLOPs; the pooler's bias and tanh; the classifier's bias; the loss, a log-softmax over two and one pick
    "bert-base": BIASES + RESIDUALS + 2 * TOKENS * HIDDEN + 7 * SCORES + 2 * HIDDEN + 2 + (5 * 2 + 1),
    # biases, residual additions, the sum of two embeddings; inside the fused attention, as for BERT
    "gpt2": BIASES + RESIDUALS + TOKENS * HIDDEN + 7 * SCORES,
}


@pytest.mark.parametrize(
    ("name", "batch"), [("lenet5", 8), ("alexnet", 2), ("resnet18", 2), ("bert-base", 1), ("gpt2", 1)]
)
def test_params_and_macs_are_deepspeeds_and_flops_add_what_it_leaves_out(name, batch):
    model, args, kwargs = zoo.build(name, batch)
    options = {"args": list(args), "kwargs": kwargs, "print_profile": False, "as_string": False}

    with torch.no_grad():
        theirs = deepspeeds_profile(model, **options)
    ours = flopsight.get_model_profile(model, **options)

    assert ours[2] == theirs[2]
    assert ours[1] == theirs[1]
    assert ours[0] == theirs[0] + batch * LEFT_OUT[name]


@pytest.mark.parametrize("batch", [1, 3])
def test_module_by_module_resnets_macs_are_deepspeeds(batch):
    from deepspeed.profiling.flops_profiler import FlopsProfiler as DeepSpeedsProfiler
    from deepspeed.profiling.flops_profiler.profiler import get_module_macs

    model, args, _ = zoo.build("resnet18", batch)
    model.eval()

    profiler = DeepSpeedsProfiler(model)
    profiler.start_profile()
    with torch.no_grad():
        model(*args)
    theirs = {path: get_module_macs(module) for path, module in model.named_modules()}
    profiler.end_profile()
    ours = flopsight.count(model, args)

    assert {path: ours[path].macs for path in theirs} == theirs
