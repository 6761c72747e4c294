"""docs/conventions.md: every row of its tables is run, and every sum in it is done again."""

import re

import pytest
import torch
import torch.nn.functional as F
from docs.pages import number, tables, text
from torch import nn

import flopsight
from flopsight import zoo

PAGE = "docs/conventions.md"
NAMES = {"torch": torch, "nn": nn, "F": F}
FORWARD = {
    "MACs": lambda p: p.macs,
    "FLOPs": lambda p: p.flops,
    "bytes": lambda p: p.forward.bytes,
    "causal MACs": lambda p: p.forward.causal_macs,
    "activation bytes": lambda p: p.activation_bytes,
}
STEP = {
    "backward MACs": lambda p: p.backward.macs,
    "backward FLOPs": lambda p: p.backward.flops,
    "repeated MACs": lambda p: p.backward.recompute_macs,
}
MODELS = {
    "LeNet-5": "lenet5",
    "AlexNet": "alexnet",
    "BERT-base": "bert-base",
    "BERT-large": "bert-large",
    "ResNet-18": "resnet18",
}
UNITS = {"M": 10**6, "G": 10**9}

EXAMPLES = [row for table in tables(PAGE) for row in table if "on" in row.header]
SUMS = [table for table in tables(PAGE) if "batch" in table[0].header[0]]


class Expression(nn.Module):
    """A line of the page as a model."""

    def __init__(self, code):
        super().__init__()
        self.code = code

    def forward(self, *inputs):
        return eval(self.code, NAMES | dict(zip("abcd", inputs, strict=False)))


def tensor(written, grad):
    """`4x8`, `4:int64`, `4x5:complex64` as the page writes them."""
    shape, _, dtype = written.strip().partition(":")
    dtype = getattr(torch, dtype or "float32")
    sizes = [int(size) for size in shape.split("x")]
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.zeros(sizes, dtype=dtype)
    return torch.randn(sizes, dtype=dtype).requires_grad_(grad)


def call(row):
    """The model of a row and what it is called with."""
    code = row.cells["run"].strip("`")
    shapes, grad, _ = row.cells["on"].partition("(grad)")
    model = eval(code, NAMES) if code.startswith("nn.") else Expression(code)
    return model, tuple(tensor(shape, bool(grad)) for shape in shapes.split(","))


def first_summed(output):
    return (output[0] if isinstance(output, tuple) else output).sum()


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: f"{row.cells['run']} on {row.cells['on']}")
def test_an_example_costs_what_the_page_says(row):
    model, inputs = call(row)
    stated = {name: number(row.cells[name]) for name in row.header if name not in ("run", "on")}

    forward = flopsight.count(model, inputs, strict=True)
    found = {name: FORWARD[name](forward) for name in stated if name in FORWARD}
    if any(name in STEP for name in stated):
        step = flopsight.count(model, inputs, train=True, loss=first_summed, strict=True)
        found |= {name: STEP[name](step) for name in stated if name in STEP}

    assert found == stated


def test_the_page_has_examples_and_sums():
    assert len(EXAMPLES) > 80
    assert len(SUMS) == len(MODELS)


@pytest.mark.parametrize("table", SUMS, ids=lambda table: table[0].header[0])
def test_ours_and_the_older_print_differ_by_what_the_page_lists(table):
    (title, unit), total = table[0].header, 0
    for row in table[:-1]:
        label, value = row.cells[title], number(row.cells[unit])
        for written in re.findall(r"`(.*?)`", label):
            assert number(written) == value, label
        total += -value if label.startswith("- ") else value
    printed, prefix = re.fullmatch(r"= printed as ([\d.]+) ([MG])", table[-1].cells[title]).groups()

    assert total == number(table[-1].cells[unit])
    assert str(round(int(total) / UNITS[prefix], 2)) == printed


@pytest.mark.parametrize("table", SUMS, ids=lambda table: table[0].header[0])
def test_ours_is_what_we_count(table):
    title, unit = table[0].header
    name, batch = re.match(r"(.*?), batch (\d+)", title).groups()
    with torch.device("meta"):
        model, args, kwargs = zoo.build(MODELS[name], int(batch))

    with torch.no_grad():
        profile = flopsight.count(model.eval(), args, kwargs)

    assert FORWARD[unit](profile) == number(table[0].cells[unit])


def test_the_sum_of_five_steps_over_one_latency_is_five_times_too_much():
    page = text(PAGE)
    latency = 1720.6 / 1296.58

    assert f"= {latency:.3f} s" in page
    assert f"{1720.6 / 5:.2f} TFLOP / {latency:.3f} s = {1720.6 / 5 / latency:.1f} TFLOP/s" in page
