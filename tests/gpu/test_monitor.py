"""A monitored loop on a GPU: its MFU is that of a profile, and it never waits for the device."""

from statistics import median

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity

import flopsight

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; what a CPU shows is in tests/loop/monitor"
)

LAYERS, WIDE, INNER, HEADS, WORDS, BATCH, TOKENS = 8, 2048, 5632, 16, 32000, 4, 2048
WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDE) for _ in range(2))
        self.attention = nn.ModuleList(nn.Linear(WIDE, WIDE, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (
            nn.Linear(*shape, bias=False) for shape in ((WIDE, INNER), (WIDE, INNER), (INNER, WIDE))
        )

    def forward(self, x):
        q, k, v = (layer(self.norms[0](x)).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in self.attention[:3])
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention[3](mixed.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDE)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDE, WORDS, bias=False)

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def step_flops(tokens=TOKENS):
    """Six for every weight of a product and token, and twelve for every pair of tokens, layer and width."""
    weights = LAYERS * (4 * WIDE * WIDE + 3 * WIDE * INNER) + WIDE * WORDS
    return BATCH * (6 * weights * tokens + 12 * LAYERS * WIDE * tokens * tokens)


def made():
    torch.manual_seed(0)
    model = Llama().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return model, optimizer, torch.randint(WORDS, (BATCH, TOKENS), device="cuda")


def train(model, optimizer, ids, steps):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(ids)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def test_mfu_of_a_loop_is_that_of_a_profile_and_the_flops_are_the_closed_form():
    model, optimizer, ids = made()
    with flopsight.monitor(model, optimizer, every=10) as live:
        train(model, optimizer, ids, 60)
    intervals = live.summary().intervals

    profile = flopsight.profile(model, (ids,), train=True, optimizer=optimizer)

    assert [interval.model_flops for interval in intervals] == [step_flops()] * 6
    found = median(interval.mfu for interval in intervals[2:])
    assert found == pytest.approx(profile.mfu, rel=0.05), "two measurements of a shared device"
    assert intervals[-1].tokens_per_second * intervals[-1].step_seconds == pytest.approx(BATCH * TOKENS)
    assert intervals[-1].peak_bytes >= torch.cuda.memory_allocated()


def test_losses_are_bit_for_bit_those_without_us():
    plain = [loss.item() for loss in train(*made(), 5)]
    model, optimizer, ids = made()
    with flopsight.monitor(model, optimizer, every=1, to=lambda record: None):
        watched = train(model, optimizer, ids, 5)

    assert [loss.item() for loss in watched] == plain


def test_a_monitored_loop_waits_for_the_device_no_more_than_a_plain_one():
    model, optimizer, ids = made()
    train(model, optimizer, ids, 3)

    def waits():
        with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as traced:
            train(model, optimizer, ids, 20)
        return sum(event.count for event in traced.key_averages() if event.key.startswith(WAITS))

    plain = waits()
    with flopsight.monitor(model, optimizer, every=5, to=lambda record: None):
        train(model, optimizer, ids, 5)  # the call is counted here
        watched = waits()

    assert watched <= plain


def test_energy_is_there_if_nvml_is():
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    model, optimizer, ids = made()
    with flopsight.monitor(model, optimizer, every=10) as live:
        train(model, optimizer, ids, 60)

    whole = live.summary().whole
    watts = whole.joules / whole.step_seconds
    assert 50 < watts < 1500
