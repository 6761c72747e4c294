"""Profiles written by hand, for whatever works on profiles. Every figure is arithmetic that stands here."""

from dataclasses import replace
from itertools import count
from math import prod

from flopsight.results.caveats import Distorted, UnknownOps
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.coverage import Coverage, UnknownOp
from flopsight.results.node import Node
from flopsight.results.profile import Environment, Profile
from flopsight.results.records import OUTSIDE, Parameter
from flopsight.results.timings import Stat, Timing

_keys = count(1)


def module(
    name, kind, *children, macs=0, flops=0, moved=0, params=(), backward=None, recompute=None, optimizer=None, calls=1,
    takes=None, gives=None, latency=None, saved=0, extra="", trainable=True, **more,
):  # fmt: skip
    """A node without its place; `rooted` gives every node its path. `params` are element counts or Parameters."""
    tensors = tuple(
        p if isinstance(p, Parameter) else Parameter(next(_keys), f"p{i}", p, trainable=trainable)
        for i, p in enumerate(params)
    )
    return Node(
        path="", name=name, kind=kind, children=children, parameters=tensors, calls=calls, latency=latency, extra_repr=extra,
        own=Phases(Cost(macs, flops, moved), backward or Cost(), recompute or Cost(), optimizer or Cost()),
        input_shapes=(takes,) if takes else (), output_shapes=(gives,) if gives else (),
        input_bytes=4 * prod(takes) if takes else 0, output_bytes=4 * prod(gives) if gives else 0,
        own_activation_bytes=saved, **more,
    )  # fmt: skip


def rooted(node, path=""):
    """The tree with every path filled in."""
    children = tuple(rooted(child, f"{path}.{child.name}".lstrip(".")) for child in node.children)
    return replace(node, path=OUTSIDE if node.name == OUTSIDE else path, children=children)


def linear(name, rows, n_in, n_out, *, bias=True, latency=None, trained=False, lead=None, **more):
    """n_in -> n_out on `rows` rows: one product, one add an output for the bias; backward is two such products."""
    macs = rows * n_in * n_out
    lead = lead or (rows,)
    return module(
        name, "Linear", macs=macs, flops=2 * macs + (rows * n_out if bias else 0), params=(n_in * n_out, n_out) if bias else (n_in * n_out,),
        takes=(*lead, n_in), gives=(*lead, n_out), latency=latency, extra=f"in_features={n_in}, out_features={n_out}, bias={bias}",
        backward=Cost(2 * macs, 4 * macs + (rows * n_out if bias else 0)) if trained else None,
        optimizer=Cost(flops=10 * (n_in * n_out + (n_out if bias else 0))) if trained else None,
        saved=4 * rows * n_in if trained else 0, **more,
    )  # fmt: skip


def conv(name, batch, c_in, c_out, kernel, side, latency=None):
    """A square convolution without padding, on `side` x `side` inputs, with a bias."""
    out = side - kernel + 1
    macs = batch * out * out * c_out * c_in * kernel * kernel
    outputs = batch * out * out * c_out
    return module(
        name, "Conv2d", macs=macs, flops=2 * macs + outputs, params=(c_out * c_in * kernel * kernel, c_out),
        takes=(batch, c_in, side, side), gives=(batch, c_out, out, out), latency=latency,
        extra=f"{c_in}, {c_out}, kernel_size=({kernel}, {kernel}), stride=(1, 1)",
    )  # fmt: skip


def pointwise(name, kind, shape, latency=None, extra=""):
    """One operation an element."""
    return module(name, kind, flops=prod(shape), takes=shape, gives=shape, latency=latency, extra=extra)


def pool(name, batch, channels, side, latency=None):
    """A 2 x 2 average: one operation an input element."""
    takes, gives = (batch, channels, side, side), (batch, channels, side // 2, side // 2)
    return module(
        name,
        "AvgPool2d",
        flops=prod(takes),
        takes=takes,
        gives=gives,
        latency=latency,
        extra="kernel_size=2, stride=2, padding=0",
    )


def lenet(batch=1024):
    """LeNet5 as the older profilers profile it, with the latencies printed there: 61,706 parameters, 426,516,480 MACs at 1024."""
    ms = 1e-3
    features = module(
        "feature_extractor", "Sequential",
        conv("0", batch, 1, 6, 5, 32, 9.8 * ms),
        pointwise("1", "Tanh", (batch, 6, 28, 28), 2.85 * ms),
        pool("2", batch, 6, 28, 4.01 * ms),
        conv("3", batch, 6, 16, 5, 14, 0.92483 * ms),
        pointwise("4", "Tanh", (batch, 16, 10, 10), 0.6721 * ms),
        pool("5", batch, 16, 10, 1.01 * ms),
        conv("6", batch, 16, 120, 5, 5, 0.64731 * ms),
        pointwise("7", "Tanh", (batch, 120, 1, 1), 0.08202 * ms),
        takes=(batch, 1, 32, 32), gives=(batch, 120, 1, 1), latency=20.12 * ms,
    )  # fmt: skip
    classifier = module(
        "classifier", "Sequential",
        linear("0", batch, 120, 84, latency=2.47 * ms),
        pointwise("1", "Tanh", (batch, 84), 0.09012 * ms),
        linear("2", batch, 84, 10, latency=2.8 * ms),
        takes=(batch, 120), gives=(batch, 10), latency=5.41 * ms,
    )  # fmt: skip
    root = module("", "LeNet5", features, classifier, takes=(batch, 1, 32, 32), gives=(batch, 10), latency=25.7 * ms)
    return Profile(
        rooted(root),
        coverage=Coverage(counted={"aten.convolution": 3, "aten.addmm": 2, "aten.tanh": 4, "aten.avg_pool2d": 2}, free={"aten.view": 1, "aten.t": 2}),
        timing=Timing(forward=Stat((25.1 * ms, 25.7 * ms, 26.9 * ms))),
        environment=Environment("0.1.0", "2.13.0", "3.11", "cpu", "", "float32", 2, "2026-01-01"),
        batch_size=batch,
    )  # fmt: skip


def block(name, rows, width, latency=0.001, lead=None):
    """A transformer block without its attention products, trained: 4 square layers, then width -> 4 width -> width."""

    def dense(name, n_in, n_out):  # fmt: skip
        return linear(name, rows, n_in, n_out, trained=True, latency=latency / 8, lead=lead)

    def call(name, kind, *children, share=1.0):
        shape = (*(lead or (rows,)), width)
        return module(name, kind, *children, takes=shape, gives=shape, latency=latency * share)

    heads = call(
        "self",
        "SelfAttention",
        dense("query", width, width),
        dense("key", width, width),
        dense("value", width, width),
        share=0.4,
    )
    attention = call("attention", "Attention", heads, dense("output", width, width), share=0.6)
    mlp = call("mlp", "Mlp", dense("up", width, 4 * width), dense("down", 4 * width, width), share=0.35)
    return call(name, "Block", attention, mlp)


def stack(layers=12, batch=4, length=128, width=768):
    """An encoder of identical trained blocks: 12 width^2 + 9 width parameters each, 12 width^2 MACs a token."""
    rows, lead = batch * length, (batch, length)
    blocks = [block(str(i), rows, width, 0.001 + i * 1e-5, lead) for i in range(layers)]
    whole = sum(b.latency for b in blocks)
    layer = module("layer", "ModuleList", *blocks, calls=0, latency=whole)
    encoder = module("encoder", "Encoder", layer, takes=(*lead, width), gives=(*lead, width), latency=whole + 0.001)
    head = linear("head", batch, width, 2, trained=True, latency=0.0005)
    loss = module(OUTSIDE, "", flops=5 * batch * 2, calls=1, backward=Cost(flops=2 * batch * 2))
    root = module("", "Classifier", encoder, head, loss, takes=(*lead, width), gives=(batch, 2), latency=whole + 0.002)
    step = Stat((0.050, 0.051, 0.052))
    return Profile(
        rooted(root),
        coverage=Coverage(counted={"aten.addmm": 6 * layers + 1, "aten.mm": 2 * (6 * layers + 1), "aten._log_softmax": 1}),
        timing=Timing(forward=Stat((0.014, 0.015, 0.016)), backward=Stat((0.030, 0.031, 0.032)), optimizer=Stat((0.005,)), step=step),
        environment=Environment("0.1.0", "2.13.0", "3.11", "cuda", "NVIDIA H200", "bfloat16"),
        batch_size=batch, tokens=rows, trained=True, peak_bytes=2_500_000_000, peak_flops={"bfloat16": 989e12},
    )  # fmt: skip


def oddities():
    """What a tidy model does not have: an unknown op, an ignored, an uncalled, a shared module, tied weights, a loss."""
    tied = Parameter(next(_keys), "weight", 50 * 8)
    embed = module("embed", "Embedding", params=(tied,), moved=256, takes=(2, 4), gives=(2, 4, 8), extra="50, 8")
    shared = linear("shared", 3 * 8, 8, 8, calls=3)
    macs = 8 * 8 * 50
    head = module(
        "head",
        "Linear",
        macs=macs,
        params=(tied,),
        takes=(2, 4, 8),
        gives=(2, 4, 50),
        extra="in_features=8, out_features=50, bias=False",
    )
    spare = module("spare", "Linear", params=(64, 8), calls=0, extra="in_features=8, out_features=8, bias=True")
    skipped = module(
        "skipped",
        "Linear",
        params=(64, 8),
        takes=(8, 8),
        gives=(8, 8),
        ignored=True,
        extra="in_features=8, out_features=8, bias=True",
    )
    mystery = module(
        "mystery",
        "Mystery",
        takes=(2, 4, 8),
        gives=(2, 4, 8),
        ops=(OpRow("mylib.spin", "forward", 2, Cost(bytes=512), "unknown"),),
    )
    frozen = linear("frozen", 8, 8, 8, trainable=False)
    loss = module(OUTSIDE, "", flops=40, moved=160)
    root = module("", "Odd", embed, shared, mystery, frozen, head, spare, skipped, loss, takes=(2, 4), gives=(2, 4, 50))
    return Profile(
        rooted(root),
        coverage=Coverage(
            counted={"aten.addmm": 4, "aten.mm": 1, "aten.sum": 1},
            free={"aten.embedding": 1, "aten.view": 8},
            unknown={"mylib.spin": UnknownOp(2, ("mystery",), 512, "no formula")},
            bytes_known=4608,  # nine tenths of all that moved
        ),
        caveats=(UnknownOps(("mylib.spin",), 2), Distorted(1.3)),
        batch_size=2,
    )  # fmt: skip
