"""One GPU as a job of one rank with NCCL: memory against torch's allocator, and the collectives of a trace.

python bench/gpu_dist.py [OUT]     # starts its own group; OUT is a folder for the profiles. Needs a GPU, at most 5 minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import flopsight

LAYERS, WIDTH, BATCH = 16, 8192, 512
MB = 1e6


def net() -> nn.Sequential:
    layers = [nn.Linear(WIDTH, WIDTH, bias=False, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
    return nn.Sequential(*layers)


def plain() -> nn.Module:
    return net()


def replicated() -> nn.Module:
    return DistributedDataParallel(net())


def replicated_in_place() -> nn.Module:
    return DistributedDataParallel(net(), gradient_as_bucket_view=True)


def sharded() -> nn.Module:
    model, mesh = net(), init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


CASES = {
    "plain": plain,
    "DDP": replicated,
    "DDP, gradients are views of buckets": replicated_in_place,
    "FSDP2": sharded,
}


def step(model: nn.Module, x: torch.Tensor) -> None:
    model.zero_grad(set_to_none=True)
    output = model(x)
    output.float().sum().backward()


def settle(model: nn.Module, x: torch.Tensor) -> None:
    """Steps until only what every later step has is held.

    DDP begins with one bucket for everything and makes smaller ones in its second step. NCCL's work of the first step
    still holds the old one until NCCL's watchdog thread, which looks every 100 ms, has seen that it is done and another
    collective begins.
    """
    for _ in range(3):
        step(model, x)
    time.sleep(1)
    step(model, x)
    torch.cuda.synchronize()


def memory(name: str, folder: Path) -> None:
    """Saved bytes and peak of one step, against the allocator."""
    torch.manual_seed(0)
    model, x = CASES[name](), torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    made = torch.cuda.memory_allocated()
    settle(model, x)
    model.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    output = model(x)
    loss = output.float().sum()
    kept = torch.cuda.memory_allocated() - before
    loss.backward()
    truth = torch.cuda.max_memory_allocated()
    del output, loss
    model.zero_grad(set_to_none=True)
    rest = torch.cuda.memory_allocated()
    begin = time.perf_counter()
    profile = flopsight.count(model, (x,), train=True, loss=lambda out: out.float().sum())
    took = time.perf_counter() - begin
    kinds = ", ".join(f"{kind} {size / MB:,.0f}" for kind, size in sorted(profile.at_peak.items(), key=lambda k: -k[1]))
    ratio = profile.peak_bytes / truth
    print(f"{name}: peak {profile.peak_bytes / MB:,.0f} MB, allocator {truth / MB:,.0f} MB, ratio {ratio:.3f}")
    print(f"    saved {profile.activation_bytes / MB:,.1f} MB, allocator after forward +{kept / MB:,.1f} MB")
    print(
        f"    made {made / MB:,.0f} MB, before the step {before / MB:,.0f} MB; at the peak {kinds}; counted in {took:.2f} s"
    )
    whole = profile.whole
    print(f"    after the step {rest / MB:,.0f} MB, after the count {torch.cuda.memory_allocated() / MB:,.0f} MB")
    print(f"    params {profile.params} whole {whole.params if whole else profile.part}; comm {profile.comm}")
    profile.save(folder / f"{name.split(',', maxsplit=1)[0].lower()}-{abs(hash(name)) % 1000}.json")


class Averages(nn.Module):
    """A layer that averages its output over the ranks: for one rank too that is a kernel of NCCL, unlike a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False, device="cuda", dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        work = distributed.all_reduce(out, op=distributed.ReduceOp.AVG, async_op=True)
        beside = self.layer(x)
        work.wait()
        return out + beside


def average(state, bucket):  # noqa: ARG001  (DDP reads the annotations, and refuses those that are text)
    """A communication hook for DDP that averages in NCCL."""
    work = distributed.all_reduce(bucket.buffer(), op=distributed.ReduceOp.AVG, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def traced(folder: Path) -> None:
    """Times of collectives from a device trace, all and exposed: beside a product, and in the backward of DDP."""
    x = torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, average)
    training = {"train": True, "loss": lambda out: out.float().sum()}
    for name, timed, how in (("average beside a product", Averages(), {}), ("DDP that averages", model, training)):
        profile = flopsight.profile(timed, (x,), repeats=3, **how)
        step = profile.timing.step or profile.timing.forward
        print(f"{name}: {step.median * 1e3:.2f} ms")
        for row in profile.comm:
            took = (
                "no time"
                if row.seconds is None
                else f"{row.seconds * 1e6:,.1f} us, exposed {row.exposed * 1e6:,.1f} us"
            )
            print(f"    {row.op} {row.phase}: {row.calls} x, {row.bytes / MB:,.1f} MB, {took}")
        profile.save(folder / f"{name.replace(' ', '-')}.json")


def gathered() -> None:
    """gather() in a group of one rank, and in the time it takes."""
    model, x = nn.Linear(64, 64, device="cuda"), torch.randn(8, 64, device="cuda")
    job = flopsight.gather(flopsight.count(model, (x,)))
    print(f"gather: {len(job.ranks)} of {job.size}, whole {job.whole.params} params")


def work(part: str, folder: Path) -> None:
    """One part in a process of its own, so that no other part's memory is counted."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    distributed.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda:0"))
    if part in CASES:
        memory(part, folder)
    else:
        traced(folder)
        gathered()
    distributed.destroy_process_group()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        work(sys.argv[2], folder)
        return
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {LAYERS} x Linear({WIDTH}), batch {BATCH}, bf16")
    for part in (*CASES, "trace"):
        command = [sys.executable, __file__, str(folder), part]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        print(done.stdout, end="", flush=True)
        if done.returncode:
            print(f"{part} failed: {done.stderr[-1500:]}")


if __name__ == "__main__":
    main()
