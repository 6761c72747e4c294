"""What only a GPU can show; each case has a twin elsewhere that runs on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import flopsight

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; CPU twins are in tests/capture"
)

N, D = 64, 128
X = N * D * D


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))


def rows():
    return torch.randn(N, D, device="cuda", requires_grad=True)


def test_backward_on_the_device_thread_goes_to_its_modules():
    profile = flopsight.count(Two().cuda(), (rows(),), train=True)

    assert {n.path: n.backward.macs for n in profile.walk() if n.backward.macs} == {"": 4 * X, "a": 2 * X, "b": 2 * X}


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_recompute_in_their_modules(reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = Two(), Two()

        def forward(self, x):
            how = {"use_reentrant": True} if reentrant else {"use_reentrant": False, "early_stop": False}
            return checkpoint(self.two, checkpoint(self.one, x, **how), **how)

    profile = flopsight.count(Checkpointed().cuda(), (rows(),), train=True)

    assert {n.path: n.recompute.macs for n in profile.walk() if n.recompute.macs} == {
        "": 4 * X, "one": 2 * X, "one.a": X, "one.b": X, "two": 2 * X, "two.a": X, "two.b": X,
    }  # fmt: skip
    assert profile.backward.macs == 8 * X
    assert profile["one.a"].backward.macs == 2 * X


def test_grouped_query_attention_is_counted_with_its_backward():
    q = torch.randn(2, 8, 32, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    kv = torch.randn(2, 2, 32, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    with flopsight.recording() as r:
        F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True).sum().backward()

    forward = 2 * 8 * 32 * 32 * 64 * 2
    assert r.profile.macs == forward
    assert r.profile.backward.macs in (2 * forward, 5 * forward // 2)  # the math path, or a fused kernel


def test_real_and_twin_agree_on_the_device():
    model = Two().cuda()
    real, twin = (flopsight.count(model, (rows(),), train=True, on=on) for on in ("real", "meta"))

    assert [(n.path, n.macs, n.backward.macs) for n in real.walk()] == [
        (n.path, n.macs, n.backward.macs) for n in twin.walk()
    ]
    assert real.activation_bytes == twin.activation_bytes


def test_every_kernel_lands_in_a_row_and_the_sums_add_up():
    model = nn.Sequential(Two(), Two()).cuda()
    profile = flopsight.profile(
        model, (rows(),), train=True, optimizer=torch.optim.AdamW(model.parameters()), repeats=3
    )

    assert not [c for c in profile.caveats if type(c).__name__ == "UnplacedKernels"]
    outside = profile.outside.latency if profile.outside and profile.outside.latency else 0.0
    assert profile["0"].latency + profile["1"].latency <= profile.root.latency + 1e-9
    assert abs(profile.timing.busy - profile.root.latency - 0 * outside) <= 0.001 * profile.timing.busy
    assert profile["0.a"].backward_latency > 0
    assert profile["0.a"].host_latency > 0


class NoTracer:
    def __init__(self, *_args, **_kwargs):
        from flopsight.capture.kineto import NoDeviceTrace

        raise NoDeviceTrace("the tracer is switched off for this test")


def test_without_a_tracer_events_in_a_held_stream_take_over(monkeypatch):
    monkeypatch.setattr("flopsight.capture.devicetime.device_trace", NoTracer)
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4))).cuda()
    profile = flopsight.profile(model, (torch.randn(4096, 2048, device="cuda"),), repeats=3)

    assert [type(c).__name__ for c in profile.caveats].count("HeldBack") == 1
    rows = [profile[str(i)].latency for i in range(4)]
    assert sum(rows) == pytest.approx(profile.root.latency, rel=0.2)
    assert max(rows) < 2 * min(rows)  # four equal layers


def test_a_model_that_waits_for_the_device_falls_back_to_host_times(monkeypatch):
    class Waits(nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            return out + out.sum().item()

    monkeypatch.setattr("flopsight.capture.devicetime.device_trace", NoTracer)
    profile = flopsight.profile(Waits(64, 64).cuda(), (torch.randn(64, 64, device="cuda"),), repeats=3)

    assert [type(c).__name__ for c in profile.caveats].count("HostTimes") == 1


def test_the_one_shot_profiler_times_the_whole_and_says_so():
    model = Two().cuda()
    profiler = flopsight.FlopsProfiler(model)
    profiler.start_profile()
    model(rows())
    profiler.stop_profile()

    assert profiler.get_total_duration() > 0
    assert profiler.get_total_macs() == 2 * X
    assert any(type(c).__name__ == "NotSplit" for c in profiler.profile.caveats)


def test_a_window_of_steps_traces_its_last_for_the_time_of_every_module():
    model = nn.Sequential(Two(), Two()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    with flopsight.step_profiler(model, optimizer, steps=range(1, 5)) as prof:
        for _ in range(6):
            optimizer.zero_grad()
            model(rows()).sum().backward()
            optimizer.step()
            prof.step()
    profile = prof.profile

    assert len(profile.timing.step.samples) == 2  # steps 2 and 3: step 1 was counted, step 4 traced
    assert profile["0.a"].latency > 0
    assert profile["0.a"].backward_latency > 0
    assert profile["0"].latency + profile["1"].latency <= profile.root.latency * 1.001
    assert not any(type(c).__name__ == "NotSplit" for c in profile.caveats)


def test_saved_bytes_are_what_the_allocator_keeps():
    model = nn.Sequential(*(Two() for _ in range(4))).cuda()
    x = torch.randn(4096, D, device="cuda")
    base = torch.cuda.memory_allocated()
    out = model(x)
    kept = torch.cuda.memory_allocated() - base - out.untyped_storage().nbytes()
    profile = flopsight.count(model, (x,), train=True)

    assert abs(profile.activation_bytes - kept) <= 0.01 * kept


def test_the_device_is_recognised_and_gives_an_mfu():
    model = nn.Linear(4096, 4096, bias=False).to("cuda", torch.bfloat16)
    profile = flopsight.profile(model, (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16),), repeats=3)

    assert profile.peak_flops == {} or 0 < profile.mfu < 1
