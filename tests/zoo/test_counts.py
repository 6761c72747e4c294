"""The published figures from our embedded models: totals, every row, every shape."""

from math import prod

import pytest
import torch
from zoo.published import macs_text, params_text, rows

import flopsight
from flopsight import zoo


def counted(name, batch, *, train=False, on_meta=True):
    """An embedded model's forward in inference, or in training mode."""
    with torch.device("meta" if on_meta else "cpu"):
        model, args, kwargs = zoo.build(name, batch)
    with torch.no_grad():
        return flopsight.count(model.train(train), args, kwargs)


def test_lenet5():
    profile = counted("lenet5", 1024, on_meta=False)

    assert (profile.params, profile.macs) == (61_706, 426_516_480)


def test_alexnet():
    profile = counted("alexnet", 256)

    assert (profile.params, profile.macs) == (61_100_840, 182_832_250_880)


@pytest.mark.parametrize(("name", "batch"), [("lenet5", 1024), ("alexnet", 256)])
def test_every_row_of_the_older_print_is_ours_and_its_own_extras(name, batch):
    """That print counted the bias of a convolution and every input of ReLU and pooling as a MAC.

    Its LeNet-5 also ended in a softmax, which it counted the same way.
    """
    profile = counted(name, batch)
    softmax = batch * 10 if name == "lenet5" else 0

    def extras(node):
        if node.children:
            return sum(map(extras, node.children)) + (softmax if not node.path else 0)
        if node.kind == "Conv2d":
            return prod(node.output_shapes[0])
        if node.kind in {"ReLU", "AvgPool2d", "MaxPool2d", "AdaptiveAvgPool2d"}:
            return prod(node.input_shapes[0])
        return 0

    for path, row in rows(name).items():
        assert params_text(profile[path].params) == row["params"], path
        assert macs_text(profile[path].macs + extras(profile[path])) == row["macs"], path


def test_resnet50_has_the_published_totals():
    profile = counted("resnet50", 1)

    assert (profile.params, profile.macs) == (25_557_032, 4_089_184_256)


def test_resnet18_has_the_published_totals():
    profile = counted("resnet18", 16)
    residual_adds = 16 * 2 * (64 * 56 * 56 + 128 * 28 * 28 + 256 * 14 * 14 + 512 * 7 * 7)
    classifier_bias = 16 * 1000

    assert (profile.params, profile.macs) == (11_689_512, 29_025_173_504)
    assert profile.flops == 58_180_001_792 + residual_adds + classifier_bias == 58_192_060_032
    assert profile.coverage.complete


def test_every_row_of_resnet18_has_the_printed_parameters_and_macs():
    profile = counted("resnet18", 16)

    printed = {path: (row["kind"], row["params"], row["macs"]) for path, row in rows("resnet18").items()}
    ours = {node.path: (node.kind, params_text(node.params), macs_text(node.macs)) for node in profile.walk()}
    assert ours == printed
    assert list(ours) == list(printed)


def test_every_row_of_resnet18_has_the_printed_shapes():
    profile = counted("resnet18", 16)

    for path, row in rows("resnet18-tids").items():
        node = profile[path]
        assert node.params == int(row["params"]), path
        assert ["x".join(map(str, shape)) for shape in node.input_shapes] == [row["input"]], path
        assert ["x".join(map(str, shape)) for shape in node.output_shapes] == [row["output"]], path


def test_pointnet_in_training_mode():
    profile = counted("pointnet", 32, train=True)

    assert (params_text(profile.params), macs_text(profile.macs)) == ("3.46 M", "14.07 GMACs")
    assert profile.flops == pytest.approx(29.04e9, rel=0.005)
    for path, row in rows("pointnet").items():
        node = profile[path]
        assert (node.kind, params_text(node.params), macs_text(node.macs)) == (
            row["kind"],
            row["params"],
            row["macs"],
        ), path
    assert [node.path for node in profile.walk()] == list(rows("pointnet"))


def test_pointnets_flops_are_what_its_layers_add_up_to():
    profile = counted("pointnet", 32, train=True)
    points = 32 * 1024
    widths = 64 + 128 + 1024
    biases = points * 3 * widths + 32 * (2 * (512 + 256) + 9 + 4096 + 512 + 256 + 10)
    norms = 5 * (points * 3 * widths + 32 * 3 * (512 + 256))
    relus = points * (2 * widths + 64 + 128) + 32 * 3 * (512 + 256)
    maxima = points * 3 * 1024
    identity = 32 * (9 + 4096)
    dropout_and_softmax = 32 * (256 * 2 + 5 * 10)

    rest = profile.flops - 2 * profile.macs - biases - norms - relus - maxima - identity
    assert 0 <= rest <= dropout_and_softmax, "dropout is a mask and a product, however torch fuses it"


def test_bert_base_shows_both_sums():
    profile = counted("bert-base", 4)
    attention = 12 * 2 * 4 * 128 * 128 * 768
    inside = sum(profile[f"bert.encoder.layer.{layer}.attention.self"].own.macs for layer in range(12))

    assert profile.params == 109_483_778
    assert profile.macs == 44_696_868_864
    assert inside == attention == 1_207_959_552
    assert profile.macs - inside == 43_488_909_312


@pytest.mark.parametrize(("name", "batch", "heads"), [("bert-base", 4, 12), ("bert-large", 80, 16)])
def test_every_printed_row_of_a_bert_is_ours_without_attention_and_with_softmax_as_a_mac(name, batch, heads):
    """That print missed the products of attention and counted a MAC for each of its probabilities."""
    profile = counted(name, batch)
    probabilities = batch * heads * 128 * 128

    for path, row in rows(name).items():
        node = profile[path]
        attentions = [below for below in node.walk() if below.kind == "BertSelfAttention"]
        printed = node.macs - sum(below.own.macs for below in attentions) + probabilities * len(attentions)
        assert (node.kind, params_text(node.params), macs_text(printed)) == (row["kind"], row["params"], row["macs"]), (
            path
        )


def test_bert_large_on_meta():
    profile = counted("bert-large", 80)
    attention = sum(node.own.macs for node in profile.walk() if node.kind == "BertSelfAttention")

    assert profile.params == 336_234_306
    assert attention == 64_424_509_440
    assert profile["bert.encoder"].macs - attention == 3_092_376_453_120
    assert macs_text(profile["cls"].macs) == "46.97 GMACs"
    assert params_text(profile["cls"].params) == "32.34 M", "the tied matrix shows in both its owners"
    assert params_text(profile["bert"].params) == "335.15 M"


def test_gpt2_dense_and_causal():
    profile = counted("gpt2", 1)
    attention = 12 * 2 * 128 * 128 * 768
    linear = 128 * (12 * 12 * 768 * 768 + 768 * 50257)

    assert profile.params == 124_439_808
    assert profile.macs == linear + attention
    # a token looks at itself and those before it: n (n + 1) / 2 of n * n pairs
    assert profile.forward.causal_macs == linear + attention * (128 * 129 // 2) // (128 * 128)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", ["lenet5", "alexnet", "pointnet", "resnet18"])
def test_real_tensors_and_meta_agree_in_every_row(name, train):
    real, meta = counted(name, 2, train=train, on_meta=False), counted(name, 2, train=train)

    for node in real.walk():
        assert (node.macs, node.flops, node.calls) == (
            meta[node.path].macs,
            meta[node.path].flops,
            meta[node.path].calls,
        )
        assert node.output_shapes == meta[node.path].output_shapes


@pytest.mark.parametrize("name", ["lenet5", "pointnet", "resnet18"])
def test_counting_leaves_an_embedded_model_as_it_was(name, no_trace):
    model, args, kwargs = zoo.build(name, 2)

    with no_trace(model):
        flopsight.count(model, args, kwargs)
        flopsight.count(model, args, kwargs, on="meta")
        flopsight.count(model, args, kwargs, train=True)
