"""Packed weights by arithmetic: bytes of codes, scales and zeros, the work to unpack them, what products run in."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.analysis.limits.step_load import load_of
from flopsight.analysis.packed import packed
from flopsight.engine.packed_weights import packed_sizes
from flopsight.errors import InputError
from flopsight.results.generation import Generation, Step
from flopsight.results.packing import PACKINGS, packing_of

IN, OUT, WORDS = 256, 64, 50


class Net(nn.Module):
    """A table, a product and a head."""

    def __init__(self):
        super().__init__()
        self.table, self.up = nn.Embedding(WORDS, IN), nn.Linear(IN, OUT)
        self.norm, self.head = nn.LayerNorm(OUT), nn.Linear(OUT, WORDS, bias=False)

    def get_output_embeddings(self):
        return self.head

    def forward(self, ids):
        return self.head(self.norm(self.up(self.table(ids))))


def generated(model, batch=2):
    with torch.no_grad():
        step = flopsight.profile(model, (torch.ones(batch, 1, dtype=torch.int64),), latency=False)
    return Generation(step, (Step(0, step),), batch, 1, 1, 1)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("int8", OUT * IN + 2 * OUT),
        ("int4", OUT * IN // 2 + OUT * 2 * 20 // 8),  # two groups of 128 in a row, each with 16 and 4 bits
        ("int4:32", OUT * IN // 2 + OUT * 8 * 20 // 8),
        ("fp8", OUT * IN + 4 * OUT),
    ],
)
def test_a_matrix_takes_its_codes_and_what_its_groups_share(name, size):
    assert packing_of(name).nbytes(OUT, IN) == size
    assert packed_sizes(Net(), packing_of(name)) == {"up.weight": size}


def test_the_last_group_of_a_row_may_be_short():
    assert packing_of("int4").nbytes(1, 130) == 65 + 5


@pytest.mark.parametrize(("name", "work"), [("int8", 1), ("int4", 2), ("fp8", 0)])
def test_a_step_reads_packed_weights_and_unpacks_them(name, work):
    plain, packing, net = generated(Net()), PACKINGS[name], Net()
    sizes = packed_sizes(net, packing)

    found = packed(plain, packing, sizes)

    spared = 4 * IN * OUT - sizes["up.weight"]
    assert plain.weight_bytes - found.weight_bytes == spared
    assert found.first.flops - plain.first.flops == work * IN * OUT
    assert found.first.macs == plain.first.macs
    assert plain.first.forward.bytes - found.first.forward.bytes == spared
    assert plain.first.peak_bytes - found.first.peak_bytes == spared
    assert found.weights == name
    up = load_of(found.first, 2).pieces["up"]
    assert {dtype for dtype, _ in up.macs} == {"float8_e4m3fn" if name == "fp8" else "float32"}


class Packed(nn.Module):
    """A layer as GPTQ keeps it: eight codes in a word, a scale and a zero for each group, the group of each input."""

    def __init__(self, groups=2):
        super().__init__()
        self.register_buffer("qweight", torch.zeros(IN // 8, OUT, dtype=torch.int32))
        self.register_buffer("scales", torch.ones(groups, OUT))
        self.register_buffer("qzeros", torch.zeros(groups, OUT // 8, dtype=torch.int32))
        self.register_buffer("g_idx", torch.arange(IN, dtype=torch.int32) // (IN // groups))

    def forward(self, x):
        shifts = torch.arange(0, 32, 4, dtype=torch.int32)
        codes = (self.qweight.unsqueeze(1) >> shifts.view(1, 8, 1)) & 15
        return x @ (codes.reshape(IN, OUT) * self.scales[self.g_idx.long()])


def test_weights_that_are_held_as_buffers_are_read():
    net = Net()
    net.up = Packed()
    found = generated(net)

    held = 4 * (IN // 8 * OUT + 2 * OUT + 2 * OUT // 8 + IN)
    rest = 4 * (2 * OUT + OUT * WORDS) + 2 * 4 * IN  # the norm, the head, a row of the table for each sequence
    assert found.weight_bytes == pytest.approx(held + rest, abs=4 * IN)
    assert load_of(found.first, 2).pieces["up"].weights == held
    assert found.first["up"].own.forward.flops > IN * OUT  # unpacking runs in the layer


def test_a_buffer_that_is_not_a_matrix_of_codes_is_not_a_weight():
    assert (
        load_of(flopsight.profile(nn.BatchNorm1d(8).eval(), (torch.ones(2, 8),), latency=False), 2).weight_bytes(2)
        == 2 * 4 * 8
    )


def test_scales_beside_a_quantised_parameter_are_held_too():
    """bitsandbytes keeps the scales of a weight in an attribute of the parameter."""

    class State:
        def __init__(self):
            self.absmax = torch.ones(16)

    layer = nn.Linear(8, 8, bias=False)
    layer.weight.quant_state = State()

    assert flopsight.count(layer, (torch.ones(1, 8),)).root.param_bytes == 4 * 64 + 4 * 16


@pytest.mark.parametrize("text", ["int5", "int4:0", "int4:x", "fp8:32", ""])
def test_a_packing_that_there_is_not_is_one_sentence(text):
    with pytest.raises(InputError):
        packing_of(text)
