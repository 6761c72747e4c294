"""A monitored loop on a GPU: its MFU is that of a profile, and it never waits for the device."""

from statistics import median

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity

import flopsight
from flopsight.loop.monitor import slow_steps
from flopsight.zoo.gpt import GPT, GPTConfig
from flopsight.zoo.resnet import resnet50

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; what a CPU shows is in tests/loop/monitor"
)

LAYERS, WIDE, INNER, HEADS, WORDS, BATCH, TOKENS = 16, 2048, 5632, 16, 32000, 4, 2048
"""A Llama of 953 million parameters."""
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


def gpt2_medium():
    model = GPT(GPTConfig(hidden=1024, layers=24, heads=16))
    return model, torch.randint(50257, (8, 1024), device="cuda"), torch.bfloat16


def resnet():
    return resnet50(), torch.randn(64, 3, 224, 224, device="cuda"), torch.float32


@pytest.mark.parametrize("make", [gpt2_medium, resnet])
def test_mfu_of_other_models_is_that_of_a_profile(make):
    model, batch, dtype = make()
    model.to("cuda", dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss(output):
        return output.float().square().mean()

    with flopsight.monitor(model, optimizer, every=10) as live:
        for _ in range(60):
            optimizer.zero_grad()
            loss(model(batch)).backward()
            optimizer.step()
    profile = flopsight.profile(model, (batch,), train=True, optimizer=optimizer, loss=loss)

    found = median(interval.mfu for interval in live.summary().intervals[2:])
    print(f"MFU {found:.4f}, of the profile {profile.mfu:.4f}: {found / profile.mfu - 1:+.2%}")
    assert found == pytest.approx(profile.mfu, rel=0.05), "two measurements of a shared device"


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


def test_joules_of_a_step_are_those_of_the_devices_counter():
    pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    pynvml.nvmlInit()
    name = str(torch.cuda.get_device_properties(0).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(name if name.startswith("GPU-") else f"GPU-{name}")
    model, optimizer, ids = made()
    train(model, optimizer, ids, 20)
    torch.cuda.synchronize()
    with flopsight.monitor(model, optimizer, every=10) as live:
        train(model, optimizer, ids, 10)  # the call is counted here
        torch.cuda.synchronize()
        before = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        train(model, optimizer, ids, 100)
        torch.cuda.synchronize()
        joules = (pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before) / 1000

    whole = live.summary().whole
    print(f"{whole.joules:.2f} J a step, by the counter {joules / 100:.2f} J; idle {whole.idle_watts} W")
    assert whole.joules == pytest.approx(joules / 100, rel=0.03)
    assert whole.joules_per_token == pytest.approx(whole.joules / (BATCH * TOKENS))


def test_retries_of_the_allocator_are_among_the_reasons_of_a_slow_step(monkeypatch):
    monkeypatch.setattr(slow_steps, "FAR", 0.0)
    monkeypatch.setattr(slow_steps, "LEAST_EXCESS", -1.0)  # every step is slow
    model = nn.Linear(64, 64).cuda()
    room, part, retried = 2 << 30, 300 << 20, 25
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        with flopsight.monitor(model, every=1) as live:
            for step in range(40):
                if step == retried:  # the cache is full of parts, none of which is large enough
                    parts = [torch.empty(part, dtype=torch.uint8, device="cuda") for _ in range(6)]
                    del parts
                    torch.empty(room - part, dtype=torch.uint8, device="cuda")
                model(torch.randn(8, 64, device="cuda")).sum().backward()
                live.step()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()

    blamed = [slow.step for slow in live.summary().slow if "allocator retries +1" in slow.why]
    assert blamed
    assert all(abs(step - retried) <= 3 for step in blamed)  # the host is a few steps ahead
