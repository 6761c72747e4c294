"""The older profilers' own lines, reproduced: their models by hand, their costs by arithmetic, their latencies as printed."""

import re
from dataclasses import replace

import pytest
from older_times import detailed_rows, older_print, tids_rows, time_in, with_times
from profiles import module, rooted

from flopsight.render import aprofiler_page as aprofiler
from flopsight.render import deepspeed_page as deepspeed
from flopsight.render import tids_page as tids
from flopsight.results.costs import Cost
from flopsight.results.profile import Profile
from flopsight.results.timings import Stat, Timing

BATCH, POINTS = 32, 1024


def conv1d(name, c_in, c_out):
    """A 1x1 convolution over 32 clouds of 1024 points, with a bias."""
    macs = BATCH * POINTS * c_in * c_out
    return module(
        name, "Conv1d", macs=macs, flops=2 * macs + BATCH * POINTS * c_out, params=(c_in * c_out, c_out),
        extra=f"{c_in}, {c_out}, kernel_size=(1,), stride=(1,)",
    )  # fmt: skip


def fc(name, n_in, n_out):
    """The older print does not count the bias of a linear layer."""
    return module(
        name, "Linear", macs=BATCH * n_in * n_out, params=(n_in * n_out, n_out),
        extra=f"in_features={n_in}, out_features={n_out}, bias=True",
    )  # fmt: skip


def norm(name, features, elements):
    return module(
        name, "BatchNorm1d", flops=5 * elements * features, params=(features, features),
        extra=f"{features}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    )  # fmt: skip


def tnet(name, k):
    """Its own work: five activations, and a maximum over 1024 points in 1024 channels."""
    each = BATCH * POINTS
    own = each * (64 + 128 + 1024) + BATCH * (512 + 256) + each * 1024
    return module(
        name, "Tnet",
        conv1d("conv1", k, 64), conv1d("conv2", 64, 128), conv1d("conv3", 128, 1024),
        fc("fc1", 1024, 512), fc("fc2", 512, 256), fc("fc3", 256, k * k),
        norm("bn1", 64, each), norm("bn2", 128, each), norm("bn3", 1024, each), norm("bn4", 512, BATCH), norm("bn5", 256, BATCH),
        flops=own,
    )  # fmt: skip


def pointnet():
    """PointNet on 32x3x1024 in training mode; a Transform's own work is two batched products, activations, a maximum."""
    each = BATCH * POINTS
    products = each * 3 * 3 + each * 64 * 64
    transform = module(
        "transform", "Transform",
        tnet("input_transform", 3), tnet("feature_transform", 64),
        conv1d("conv1", 3, 64), conv1d("conv2", 64, 128), conv1d("conv3", 128, 1024),
        norm("bn1", 64, each), norm("bn2", 128, each), norm("bn3", 1024, each),
        macs=products, flops=2 * products + each * (64 + 128) + each * 1024,
    )  # fmt: skip
    return rooted(
        module(
            "", "PointNet",
            transform, fc("fc1", 1024, 512), fc("fc2", 512, 256), fc("fc3", 256, 10), norm("bn1", 512, BATCH), norm("bn2", 256, BATCH),
            module("dropout", "Dropout", extra="p=0.3, inplace=False"), module("logsoftmax", "LogSoftmax", extra="dim=1"),
            flops=BATCH * (512 + 256),
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def pointnet_text():
    root = with_times(pointnet(), detailed_rows(older_print("pointnet_tree")))
    profile = Profile(root, timing=Timing(forward=Stat((root.latency,))))
    return deepspeed.render(profile, profile_step=5)


def test_the_detailed_tree_of_pointnet_is_the_older_profilers_line_for_line(pointnet_text):
    ours = pointnet_text[pointnet_text.index("\nPointNet(") + 1 : pointnet_text.rindex("\n---")]

    assert ours.splitlines() == older_print("pointnet_tree").splitlines()


def test_summary_and_aggregate_of_pointnet_are_the_older_profilers_line_for_line(pointnet_text):
    theirs = older_print("pointnet_summary").splitlines()
    ours = pointnet_text.splitlines()[1:][: len(theirs)]

    assert ours == theirs


def test_the_aggregate_goes_on_to_the_deepest_level_where_the_older_print_stopped(pointnet_text):
    # three 128 -> 1024 convolutions and the rest of the seven at that depth; the linear layers hold the parameters
    assert (
        "depth 3:\n    params      - {'Linear': '2.37 M'}\n    MACs        - {'Conv1d': '9.27 GMACs'}" in pointnet_text
    )
    assert 2 * (1024 * 512 + 512 + 512 * 256 + 256) + (256 * 9 + 9) + (256 * 4096 + 4096) == 2_367_241
    assert "depth 4:" not in pointnet_text


def test_the_rows_of_lenet_are_the_older_profilers():
    """The older print's older convention: biases and poolings are MACs, and a softmax at the end."""
    batch = 1024

    def conv(name, c_in, c_out, side):
        return module(
            name, "Conv2d", macs=batch * side * side * c_out * (25 * c_in + 1), params=(25 * c_in * c_out, c_out),
            extra=f"{c_in}, {c_out}, kernel_size=(5, 5), stride=(1, 1)",
        )  # fmt: skip

    def pool(name, channels, side):
        return module(
            name, "AvgPool2d", macs=batch * channels * side * side, extra="kernel_size=2, stride=2, padding=0"
        )

    def linear(name, n_in, n_out):
        return module(
            name, "Linear", macs=batch * n_in * n_out, params=(n_in * n_out, n_out),
            extra=f"in_features={n_in}, out_features={n_out}, bias=True",
        )  # fmt: skip

    def tanh(name):
        return module(name, "Tanh")

    features = module(
        "feature_extractor", "Sequential", conv("0", 1, 6, 28), tanh("1"), pool("2", 6, 28), conv("3", 6, 16, 10), tanh("4"),
        pool("5", 16, 10), conv("6", 16, 120, 1), tanh("7"),
    )  # fmt: skip
    classifier = module("classifier", "Sequential", linear("0", 120, 84), tanh("1"), linear("2", 84, 10))
    root = rooted(module("", "LeNet5", features, classifier, macs=batch * 10))

    root = with_times(root, detailed_rows(older_print("lenet_tree")))
    text = deepspeed.render(Profile(root))
    ours = text[text.index("\nLeNet5(") + 1 : text.rindex("\n---")]

    # this print lost the blank at the end of its containers' lines
    assert [line.rstrip() for line in ours.splitlines()] == older_print("lenet_tree").splitlines()


def test_the_tids_print_of_resnet18_is_the_older_profilers_line_for_line():
    rows = tids_rows(older_print("resnet_tids"))
    whole = 93.6656e-3  # of the times that round to 93.666 ms, one that all shares agree with

    def built(place):
        level, name, kind, params, latency, share, takes, gives = rows[place]
        below = next((i for i in range(place + 1, len(rows)) if rows[i][0] <= level), len(rows))
        children = [built(i) for i in range(place + 1, below) if rows[i][0] == level + 1]
        own = () if children or not params else (params,)  # a container's parameters are its children's
        time = whole if not level else time_in(latency, share, whole)
        return module(name if level else "", kind, *children, params=own, latency=time, takes=takes, gives=gives)

    text = tids.render(Profile(rooted(built(0))))

    assert text.splitlines() == older_print("resnet_tids").splitlines()


def test_the_summary_of_a_training_step_is_the_older_profilers_line_for_line():
    """BERT-Large on 80 sequences; this print writes MACs without their unit, the two others with it."""
    root = module("", "BertForPreTrainingPreLN", macs=3_139_930_000_000, params=(336_234_306,))
    profile = Profile(
        rooted(root),
        timing=Timing(
            forward=Stat((76.674e-3,)), backward=Stat((108.02e-3,)), optimizer=Stat((34.09e-6,)), step=Stat((184.728e-3,))
        ),
        batch_size=80,
    )  # fmt: skip

    text = deepspeed.render(profile, profile_step=10, detailed=False)

    theirs = [
        line.replace("3139.93 G", "3139.93 GMACs") if "MACs per" in line else line
        for line in older_print("bert_large_summary").splitlines()
    ]
    assert [line.rstrip() for line in text.splitlines()[1 : len(theirs) + 1]] == theirs


def test_aprofilers_text_is_the_older_profilers_line_for_line():
    """A tree with the older print's totals at every depth; the older print's misspelt `actication` is mended."""
    fsdp, giga, tera = "FullyShardedDataParallel", 10**9, 10**12

    def own(flops, macs, params, *below):
        """What a node must own itself for its subtree to come to these totals."""
        return {
            "macs": macs - sum(node.macs for node in below),
            "flops": flops - sum(node.flops for node in below),
            "params": (params - sum(node.params for node in below),),
        }

    def at(name, kind, params, flops, macs, latency, activation, *below):
        totals = own(int(flops * tera), int(macs * tera), int(params * giga), *below)
        return module(name, kind, *below, latency=latency, allocated_bytes=int(activation * giga), **totals)

    fc = at("fc", "Linear", 4.0, 1000.0, 500.0, 0.4, 20.0)
    proj = at("proj", "Linear", 0.63, 285.03, 142.51, 0.22265, 6.72)
    mlp = at("mlp", "Mlp", 6.17, 1142.32, 571.12, 0.61101, 40.09, fc)
    attention = at("attention", "Attention", 2.0, 500.0, 250.0, 0.4, 30.0, proj)
    inner = at("inner", fsdp, 13.89, 1713.64, 856.68, 1.11, 69.81, mlp, attention)
    block = at("block", "Block", 14.47, 1713.81, 856.68, 1.32, 87.64, inner)
    wrapped = at("0", fsdp, 15.05, 1713.81, 856.68, 1.34, 87.64, block)
    blocks = at("blocks", "ModuleList", 15.63, 1713.81, 856.68, 1.34, 87.64, wrapped)
    model = at("module", "VisionTransformerForMaskedImageModelingCLS", 16.29, 1720.6, 860.07, 1.33, 48.97, blocks)
    root = at("", fsdp, 16.9, 1720.6, 860.07, 1.33, 49.04, model)
    profile = Profile(rooted(root), timing=Timing(forward=Stat((1.32703,))))

    text = aprofiler.render(profile, profile_step=1)

    theirs = older_print("aprofiler").replace("latency,actication", "latency, activation")
    title, *ours = text.splitlines()
    assert ours[:-1] == theirs.splitlines()
    assert re.fullmatch(r"-+ AProfiler Summary at step 1 -+", title)


def test_a_recompute_factor_changes_the_estimate_and_its_label():
    root = module("", "Net", macs=10**12, params=(10,), backward=Cost(2 * 10**12), recompute=Cost(10**12))
    profile = Profile(rooted(root), timing=Timing(forward=Stat((0.1,)), backward=Stat((0.3,))), trained=True)

    text = deepspeed.render(replace(profile, recompute_fwd_factor=1.0), detailed=False)

    assert "bwd FLOPS per GPU = 3 * fwd flops per GPU / bwd latency:      20.0 TFLOPS" in text
    assert "bwd FLOPS per GPU = counted bwd flops per GPU / bwd latency:   20.0 TFLOPS" in text
    assert "fwd+bwd FLOPS per GPU = 4 * fwd flops per GPU / (fwd+bwd latency):   20.0 TFLOPS" in text
