"""What only a GPU can show; each case has a twin elsewhere that runs on the CPU."""

import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

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
            once = checkpoint(self.one, x, use_reentrant=reentrant)
            return checkpoint(self.two, once, use_reentrant=reentrant)

    with set_checkpoint_early_stop(False):
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
    assert profile["0"].latency + profile["1"].latency <= profile.root.latency + 1e-9
    assert abs(profile.timing.busy - profile.root.latency) <= 0.001 * profile.timing.busy
    assert profile.timing.optimizer_busy > 0
    assert profile["0.a"].backward_latency > 0
    assert profile["0.a"].host_latency > 0


def test_in_inference_every_kernel_is_in_the_module_that_launched_it():
    model = nn.Sequential(Two(), Two()).cuda().eval()
    with torch.no_grad():
        profile = flopsight.profile(model, (rows(),), repeats=3)

    leaves = [profile[path].latency for path in ("0.a", "0.b", "1.a", "1.b")]
    assert min(leaves) > 0
    assert profile["0"].latency + profile["1"].latency == pytest.approx(profile.timing.busy)
    assert profile.outside is None or not profile.outside.latency
    for path in ("", "0", "0.a"):
        assert profile[path].stream_latency >= profile[path].latency * 0.999
        assert profile[path].idle >= 0
    assert profile.timing.idle > 0  # so small a model waits for the host


def test_kernels_on_two_streams_find_their_modules():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.side = nn.Linear(2048, 2048), nn.Linear(2048, 2048), torch.cuda.Stream()

        def forward(self, x):
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                there = self.b(x)
            here = self.a(x)
            torch.cuda.current_stream().wait_stream(self.side)
            return here + there

    model = Branches().cuda().eval()
    x = torch.randn(2048, 2048, device="cuda")
    with torch.no_grad():
        profile = flopsight.profile(model, (x,), repeats=3)

    one, other = profile["a"].latency, profile["b"].latency
    assert one > 0
    assert other > 0
    assert one + other <= profile.root.latency == pytest.approx(profile.timing.busy)


def test_a_replayed_graph_is_timed_in_its_module_and_said_to_be_uncounted():
    class Replays(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain, self.inner = nn.Linear(512, 512).cuda(), nn.Linear(512, 512).cuda()
            self.still = torch.zeros(512, 512, device="cuda")
            with torch.no_grad():
                for _ in range(3):
                    self.inner(self.still)
                torch.cuda.synchronize()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.out = self.inner(self.still)

        def forward(self, x):
            self.still.copy_(self.plain(x))
            self.graph.replay()
            return self.out

    model = Replays().eval()
    with torch.no_grad():
        profile = flopsight.profile(model, (torch.randn(512, 512, device="cuda"),), repeats=3, memory=False)

    assert profile.macs == 512**3  # the plain layer's
    assert list(profile.coverage.unknown) == ["cuda.graph_replay"]
    assert profile.coverage.unknown["cuda.graph_replay"].calls == 1
    assert not [c for c in profile.caveats if type(c).__name__ == "UnplacedKernels"]
    assert profile.root.latency - profile["plain"].latency > 0.2 * profile["plain"].latency  # the copy and the graph


def test_gradients_that_are_added_up_belong_to_the_modules_that_made_them():
    model = nn.Sequential(Two(), Two()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with flopsight.step_profiler(model, optimizer, steps=range(1, 5)) as prof:
        for _ in range(6):
            for _ in range(3):
                model(torch.randn(N, D, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)  # so that every gradient is added to one that is there
            prof.step()

    modules = sum(prof.profile[path].backward_latency for path in ("0", "1"))
    assert modules > 0.9 * prof.profile.timing.backward_busy  # the rest is the loss


def kernels_seen_by_torch(model, x):
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        model(x)
        torch.cuda.synchronize()
    return sum(event.device_time_total > 0 for event in seen.events())


def test_torchs_own_profiler_works_after_ours_and_the_environment_is_as_it_was():
    model, x = Two().cuda(), rows()
    before = dict(os.environ)
    for _ in range(3):
        flopsight.profile(model, (x,), repeats=2)
        assert dict(os.environ) == before
    assert kernels_seen_by_torch(model, x) > 0


def test_a_profiler_of_torchs_that_is_running_goes_on():
    model, x = Two().cuda(), rows()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as theirs:
        profile = flopsight.profile(model, (x,), repeats=2)
        torch.cuda.synchronize()

    assert {"HeldBack", "HostTimes"} & {type(c).__name__ for c in profile.caveats}
    assert any(event.device_time_total > 0 for event in theirs.events())


def test_a_compiled_model_is_one_row_of_kernels():
    model = torch.compile(Two().cuda().eval())
    with torch.no_grad():
        profile = flopsight.profile(model, (rows(),), repeats=3)

    assert profile.macs == 2 * X
    assert profile.root.latency == pytest.approx(profile.timing.busy)
    assert profile.timing.busy > 0
    assert "CompiledWhole" in {type(c).__name__ for c in profile.caveats}


class NoTracer:
    def __init__(self, *_args, **_kwargs):
        from flopsight.capture.time.kineto import NoDeviceTrace

        raise NoDeviceTrace("the tracer is switched off for this test")


def test_without_a_tracer_events_in_a_held_stream_take_over(monkeypatch):
    monkeypatch.setattr("flopsight.capture.time.device_trace.device_trace", NoTracer)
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

    monkeypatch.setattr("flopsight.capture.time.device_trace.device_trace", NoTracer)
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


def test_the_rehearsal_of_a_single_step_leaves_no_trace():
    def make():
        torch.manual_seed(0)
        return nn.Sequential(Two(), nn.BatchNorm1d(D), nn.Dropout(0.5)).cuda()

    x, plain, watched = rows().detach(), make(), make()
    torch.manual_seed(1)
    expected, state = plain(x), torch.cuda.get_rng_state()
    torch.manual_seed(1)
    profiler = flopsight.FlopsProfiler(watched)
    profiler.start_profile()
    found = watched(x)
    profiler.stop_profile()

    assert torch.equal(found, expected)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(watched.buffers(), plain.buffers(), strict=True))
    assert all(p.grad is None for p in watched.parameters())


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
