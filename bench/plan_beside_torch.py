"""A training step of GPT-2, sharded by FSDP2 over 8 ranks: what torch's own estimators say of it, and what our dry run says.

    python bench/plan_beside_torch.py

torch's FSDPMemTracker and RuntimeEstimator (torch.distributed._tools) run on fake tensors over the fake process group, as our dry run
does; here without a GPU, so no allocator is asked (`bench/gpu_plan.py` asks one).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn

import flopsight
from flopsight.distributed.blocks import repeated_blocks
from flopsight.zoo import factory

warnings.filterwarnings("ignore")
RANKS, BATCH, SEQ = 8, 8, 512


def built(mesh: Any) -> tuple[nn.Module, torch.optim.Optimizer, torch.Tensor]:
    """The model sharded as our dry run shards it, its optimizer and a batch, as fake tensors."""
    from torch.distributed.fsdp import fully_shard

    model = factory("gpt2")().train()
    for block in repeated_blocks(model).values():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters()), torch.zeros(BATCH, SEQ, dtype=torch.int64)


def tracked(mesh: Any) -> dict[str, Any]:
    """The peak by FSDPMemTracker, in the second step."""
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

    model, optimizer, tokens = built(mesh)
    tracker = FSDPMemTracker(model, optimizer)
    tracker.track_inputs((tokens,))
    with tracker:
        for step in range(2):
            model(tokens).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if not step:
                tracker.reset_mod_stats()
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    return {str(getattr(kind, "value", kind)): size for kind, size in peak.items() if size}


def estimated(mesh: Any) -> dict[str, Any]:
    """A step by RuntimeEstimator's roofline, which asks the GPU at hand for its peaks."""
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator

    model, _optimizer, tokens = built(mesh)
    with RuntimeEstimator()("operator-level-cost-model") as estimator:
        model(tokens).sum().backward()
    return {"step": f"{estimator.total_runtime:.1f} ms"}


def faked(ask: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Ask on fake tensors, as a rank of the fake process group."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (RANKS,))  # whose ranks are real numbers
        with FakeTensorMode():
            return ask(mesh)
    finally:
        distributed.destroy_process_group()


def ours() -> dict[str, Any]:
    """The peak of the dry run."""
    tokens = torch.zeros(BATCH, SEQ, dtype=torch.int64)
    model = factory("gpt2")()
    profile = flopsight.count(
        model, (tokens,), train=True, optimizer=torch.optim.AdamW(model.parameters()), mesh={"fsdp": RANKS}
    )
    return {"Total": profile.peak_bytes, **profile.at_peak}


def main() -> None:
    flopsight.count("zoo:gpt2", on="meta", mesh={"fsdp": RANKS})  # imports everything
    for name, ask in (
        ("flopsight's dry run", ours),
        ("FSDPMemTracker", lambda: faked(tracked)),
        ("RuntimeEstimator", lambda: faked(estimated)),
    ):
        begun = time.process_time()
        try:
            parts = ask().items()
            found = ", ".join(
                f"{kind} {size:,} B" if isinstance(size, int) else f"{kind} {size}" for kind, size in parts
            )
        except Exception as problem:
            found = f"does not run here: {type(problem).__name__}: {str(problem).splitlines()[0][:150]}"
        print(f"{name} ({time.process_time() - begun:.1f} s of CPU): {found}", flush=True)


if __name__ == "__main__":
    main()
