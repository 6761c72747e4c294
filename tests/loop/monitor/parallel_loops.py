"""Training loops of two ranks as frameworks write them, each run without a monitor and with one."""

import os
from contextlib import nullcontext

import torch
from distributed.nets import WIDTH, net
from torch import distributed, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import flopsight
from flopsight.loop.monitor import rank_exchange

STEPS = 6
ROWS = (8, 8, 4, 2)
"""Rows of the micro-batches of a step; every second step has one row more in each."""


def batches(step, seed):
    made = torch.Generator().manual_seed(100 * step + seed)
    return [torch.randn(rows + step % 2, WIDTH, generator=made) for rows in ROWS]


def ddp(seed):
    """nanoGPT's way: gradients are summed up in the last micro-batch only, a validation before every third step."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(number):
        if number % 3 == 0:
            model.eval()
            with torch.no_grad():
                model(batches(number, seed)[0])
            model.train()
        losses = []
        for at, batch in enumerate(batches(number, seed)):
            with nullcontext() if at == len(ROWS) - 1 else model.no_sync():
                loss = model(batch).square().mean() / len(ROWS)
                loss.backward()
            losses.append(loss.item())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    return model, optimizer, step


def sharded(model, seed, **options):
    """torchtitan's way: blocks and model are sharded, the gradient's norm is a DTensor, the loss is made outside."""
    for block in model:
        fully_shard(block, **options)
    fully_shard(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(number):
        optimizer.zero_grad()
        losses = []
        for at, batch in enumerate(batches(number, seed)):
            model.set_requires_gradient_sync(at == len(ROWS) - 1)
            loss = nn.functional.mse_loss(model(batch).float(), torch.zeros(len(batch), WIDTH)) / len(ROWS)
            loss.backward()
            losses.append(loss.item())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return losses

    return model, optimizer, step


def fsdp2(seed):
    return sharded(net(), seed)


def compiled_fsdp2(seed):
    model = net()
    for name, block in list(model.named_children()):
        model.register_module(name, torch.compile(block, backend="aot_eager", dynamic=True))
    return sharded(model, seed)


def titan(seed):
    """All of it: blocks are checkpointed, compiled and sharded, compute is bfloat16 and gradients are reduced in float32."""
    model = net()
    for name, block in list(model.named_children()):
        wrapped = checkpoint_wrapper(block, preserve_rng_state=False)
        model.register_module(name, torch.compile(wrapped, backend="aot_eager", fullgraph=True, dynamic=True))
    return sharded(model, seed, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


def tensor_parallel(_seed):
    """Both ranks share every product of the same batch; FSDP has a mesh of one rank, as torchtitan makes it."""
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    model = net()
    plan = {
        f"{at}.{name}": kind() for at in (0, 1) for name, kind in (("up", ColwiseParallel), ("down", RowwiseParallel))
    }
    return sharded(parallelize_module(model, mesh["tp"], plan), seed=0, mesh=mesh["dp"])


def compared(make):
    """What a loop lost without us and with us, its records, and what we left behind."""

    def case():
        os.environ["FLOPSIGHT_PEAK_FLOPS"] = "fp32=1e12"  # in a rank, never where the file is only imported
        rank_exchange.PERIOD = 0.02
        seed = 10 * distributed.get_rank()
        torch.manual_seed(0)
        _, _, step = make(seed)
        plain = [step(number) for number in range(STEPS)]
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, optimizer, step = make(seed)
        call, seen = nn.Module.__call__, []
        with flopsight.monitor(model, optimizer, every=1, to=seen.append) as live:
            watched = [step(number) for number in range(STEPS)]
        kinds = {type(module) for module in model.modules()}
        left = nn.Module.__call__ is not call or any("__call__" in vars(kind) for kind in kinds - {nn.Module})
        torch._dynamo.reset()
        return {"plain": plain, "watched": watched, "seen": seen, "left": left, "run": live.summary()}

    return case


CASES = {make.__name__: compared(make) for make in (ddp, fsdp2, compiled_fsdp2, titan, tensor_parallel)}
