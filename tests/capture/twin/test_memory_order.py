"""The strides, precision and memory of what ops return on the twin, against the CPU's, for operands in random memory orders."""

import random

import pytest
import torch
from releases import TORCH
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from flopsight.capture.twin.meta_counter import MetaCounter
from flopsight.capture.twin.strides import iterated_strides, kept_strides
from flopsight.formulas import known

aten = torch.ops.aten
SIZES = (1, 1, 2, 3, 4)
UNSEEN = {"equal", "ldexp", "_conj_physical", "conj_physical", "threshold_backward"}
"""Answered by values, two ops on the CPU, returns its operand, or would be asked with a gradient of another type than its data."""


def operand(rng, shape, dtype=torch.float32):
    """A tensor whose dimensions lie in memory in any order, with gaps, repetitions and strides that no element is read by."""
    kind = rng.choice(["plain", "any", "any", "last", "gaps", "odd", "odd"])
    order = list(range(len(shape)))
    if kind in ("any", "odd"):
        rng.shuffle(order)
    if kind == "last" and len(shape) > 2:
        order = [0, *order[2:], 1]
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * max(shape[dim], 1) + (kind == "gaps" and rng.random() < 0.3)
    for dim, size in enumerate(shape):
        if size == 1 and (kind == "odd" or rng.random() < 0.2):
            strides[dim] = rng.choice([0, 1, 7, step, strides[dim]])
        elif size > 1 and rng.random() < 0.1:
            strides[dim] = 0
    room = 1 + sum((size - 1) * one for size, one in zip(shape, strides, strict=True)) if all(shape) else 0
    return torch.zeros(room, dtype=dtype).as_strided(shape, strides)


def some_shape(rng):
    sizes = (*SIZES, 0) if rng.random() < 0.2 else SIZES
    return tuple(rng.choice(sizes) for _ in range(rng.choice([0, 1, 2, 3, 3, 4, 4, 5])))


def broadcast_to(rng, shape):
    return tuple(1 if rng.random() < 0.25 else size for size in shape)[
        rng.choice([0, 0, 0, 1]) if len(shape) > 2 else 0 :
    ]


def on_meta(value):
    if not isinstance(value, torch.Tensor):
        return value
    whole = torch.empty(value.untyped_storage().nbytes() // value.itemsize, dtype=value.dtype, device="meta")
    return whole.as_strided(value.shape, value.stride())


def described(output):
    if isinstance(output, torch.Tensor):
        return tuple(output.shape), output.stride(), output.dtype, output.untyped_storage().nbytes()
    return tuple(map(described, output)) if isinstance(output, list | tuple) else None


def test_the_iterators_strides_and_those_of_a_new_tensor_are_torchs():
    rng = random.Random(0)
    for _ in range(3000):
        shape, count = some_shape(rng), rng.choice([1, 2, 3])
        operands = [operand(rng, shape if rng.random() < 0.5 else broadcast_to(rng, shape)) for _ in range(count)]
        made = (torch.sin, torch.add, torch.addcmul)[count - 1](*operands)

        assert iterated_strides(operands) == made.stride(), list(map(described, operands))
        assert kept_strides(operands[0]) == torch.empty_like(operands[0]).stride()
        assert kept_strides(operands[0]) == operands[0].double().stride()


def pointwise_ops():
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    for name in sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::")):
        packet = getattr(aten, name)
        for overload in packet.overloads() if name not in UNSEEN else ():
            func = getattr(packet, overload)
            if torch.Tag.pointwise in func.tags and not func._schema.is_mutable and not func._can_decompose():
                yield func


def arguments(rng, func, shape, dtypes):
    """Values for the arguments that have no default; None if one is of a kind that is not made here."""
    made = {"number": 2, "Scalar": 2.0, "float": 0.5, "int": 0, "bool": True, "str": "none"}
    args, kwargs = [], {}
    for argument in func._schema.arguments:
        if str(argument.type) == "Tensor":
            mask = argument.name in ("condition", "mask")
            wanted = shape if not args and rng.random() < 0.7 else broadcast_to(rng, shape)
            value = operand(rng, wanted, torch.bool if mask else rng.choice(dtypes))
        elif argument.has_default_value():
            continue
        elif str(argument.type) in made:
            value = made[str(argument.type)]
        else:
            return None
        kwargs.update({argument.name: value}) if argument.kwarg_only else args.append(value)
    return args, kwargs


def test_every_pointwise_op_returns_what_it_returns_on_the_cpu():
    rng, counter, seen, wrong = random.Random(0), MetaCounter(None, known), set(), []
    for func in pointwise_ops():
        for _ in range(12):
            dtypes = rng.choice([[torch.float32], [torch.float32, torch.bfloat16], [torch.float32, torch.int64]])
            given = arguments(rng, func, some_shape(rng), [torch.int64] if "bit" in func.name() else dtypes)
            if given is None:
                break
            args, kwargs = given
            try:
                expected = described(func(*args, **kwargs))
            except (RuntimeError, NotImplementedError):  # not for these types or shapes
                continue
            made = counter.run(func, list(map(on_meta, args)), {name: on_meta(value) for name, value in kwargs.items()})
            seen.add(func)
            if described(made) != expected:
                wrong.append((str(func), list(map(described, args)), expected, described(made)))

    assert len(seen) > 140
    assert wrong == []


class Log(TorchDispatchMode):
    """What every op returns."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        self.made.append((str(func), described(output)))
        return output


class MetaLog(MetaCounter):
    def __init__(self):
        super().__init__(None, known)
        self.made = []

    def run(self, func, args, kwargs):
        output = super().run(func, args, kwargs)
        self.made.append((str(func), described(output)))
        return output


def kernel(x, size=3):
    return torch.ones(4, x.shape[1], size, size, device=x.device, requires_grad=True)


def bias(x):
    return torch.ones(4, device=x.device, requires_grad=True)


F = functional
IMAGES = {
    "convolution": lambda x: F.conv2d(x, kernel(x), bias(x), padding=1),
    "convolution 1x1": lambda x: F.conv2d(x, kernel(x, 1)),
    "convolution, weight frozen": lambda x: F.conv2d(x, kernel(x).detach(), bias(x), padding=1),
    "convolution, channels of the weight last": lambda x: F.conv2d(
        x, kernel(x).contiguous(memory_format=torch.channels_last), padding=1
    ),
    "convolution of a sequence": lambda x: F.conv1d(x.flatten(2), kernel(x)[..., 0], bias(x), padding=1),
    "convolution of a volume": lambda x: F.conv3d(x[:, :, None], kernel(x)[:, :, None], bias(x), padding=1),
    "transposed convolution": lambda x: F.conv_transpose2d(x, kernel(x).transpose(0, 1), padding=1),
    "pixel shuffle": lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
    "pixel unshuffle": lambda x: F.pixel_unshuffle(x, 1),
    "channel shuffle": lambda x: F.channel_shuffle(torch.cat([x, x], 1), 2),
    "maximum pool": lambda x: F.max_pool2d(x, 2, 1, 1),
    "average pool": lambda x: F.avg_pool2d(x, 2, 1, 1),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "replicate": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "unfold": lambda x: F.unfold(x, 2, padding=1),
    "batch norm": lambda x: F.batch_norm(torch.cat([x, x]), None, None, training=True),
    "group norm": lambda x: F.group_norm(x, 1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "attention block": lambda x: x.flatten(2).transpose(1, 2) * 2.0,
    "gate": lambda x: x * x.mean((2, 3), keepdim=True),
    "cat": lambda x: torch.cat([x, x.contiguous()], 1).relu(),
    "softmax": lambda x: x.softmax(1),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], *x.shape[2:], dtype=torch.long, device=x.device)),
}
ANY = {
    **{
        name: getattr(F, name)
        for name in (
            "relu", "gelu", "silu", "elu", "leaky_relu", "hardswish", "hardsigmoid", "hardtanh", "relu6", "mish",
            "softplus", "softsign", "logsigmoid", "tanhshrink", "softshrink", "hardshrink",
        )
    },
    **{name: getattr(torch.Tensor, name) for name in ("sum", "mean", "exp", "clone", "double", "tril", "sigmoid", "tanh")},
    "dropout": F.dropout,
    "scaled": lambda x: (x + 1) * 2.0 / 3,
    "square": lambda x: x**2 - 1,
    "clamp": lambda x: x.clamp(-1, 1),
    "choice": lambda x: torch.where(x > 0, x, 0.0),
    "masked": lambda x: x.masked_fill(x > 0, 0),
    "sum of rows": lambda x: x.sum(-1, keepdim=True) * x,
    "mean of columns": lambda x: x.mean(0),
    "variance": lambda x: x.var(-1),
    "maximum": lambda x: x.amax(-1),
    "norm": lambda x: F.normalize(x, dim=-1),
    "softmax of rows": lambda x: x.softmax(-1),
    "log softmax": lambda x: x.log_softmax(0),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "sorted": lambda x: x.sort(-1)[0],
    "running sum": lambda x: x.cumsum(-1),
    "stack": lambda x: torch.stack([x, x], -1),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, -1),
    "repeat": lambda x: x.repeat_interleave(2, 0),
    "rows by number": lambda x: x.index_select(0, torch.zeros(2, dtype=torch.long, device=x.device)),
    "product": lambda x: x @ x.transpose(-1, -2),
    "linear": lambda x: F.linear(x, torch.ones(3, x.shape[-1], device=x.device)),
    "transposed": lambda x: x.transpose(0, -1).reshape(-1),
    "half": lambda x: x.bfloat16() * x.half(),
    "squared error": lambda x: F.mse_loss(x, x.detach() * 2),
    "negative": lambda x: torch._neg_view(x) * 2,
    "negative copy": lambda x: torch._neg_view(x).exp().flatten(),
}  # fmt: skip


def ran(function, x, log):
    """What every op of a forward and its backward returned, views of autograd's own left out."""
    with log:
        made = (function(x) * 2.0).flatten()
        if made.requires_grad:
            made.sum().backward()
    return [one for one in log.made if one[0] not in ("aten.detach.default", "aten.alias.default")]


OTHERWISE = {
    "average pool": pytest.mark.skipif(TORCH < (2, 11), reason="before 2.11 the CPU gives one channel another stride"),
    "group norm": pytest.mark.skipif(TORCH >= (2, 14), reason="from 2.14 on the CPU gives one channel another stride"),
}


@pytest.mark.parametrize(
    ("name", "function"),
    [pytest.param(*case, id=case[0], marks=OTHERWISE.get(case[0], ())) for case in (*ANY.items(), *IMAGES.items())],
)
def test_a_forward_and_its_backward_return_what_they_return_on_the_cpu(name, function):
    rng = random.Random(name)
    for _ in range(6):
        shape = tuple(rng.choice(SIZES) for _ in range(4 if name in IMAGES else rng.choice([2, 3, 4])))
        x = operand(rng, shape)
        if name in IMAGES and rng.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        twin, given = on_meta(x), described(x)

        real = ran(function, x.requires_grad_(), Log())

        assert ran(function, twin.requires_grad_(), MetaLog()) == real, given


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("func", [aten._embedding_bag.default, aten._embedding_bag_forward_only.default], ids=str)
@pytest.mark.parametrize("padding", [-1, 3])
def test_bags_of_embeddings_keep_what_they_keep_on_the_cpu(func, mode, last, padding):
    given = (torch.ones(10, 8), torch.arange(16) % 10, torch.tensor([0, 4, 8, 12]), False, mode, False, None, last)

    made = MetaCounter(None, known).run(func, (*map(on_meta, given), padding), {})

    assert described(made) == described(func(*given, padding))
