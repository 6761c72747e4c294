"""What two ranks do in one job; each case returns profiles, which the tests look at."""

import torch
import torch.distributed._functional_collectives as functional
from distributed.nets import BATCH, LENGTH, SEQUENCES, TOKENS, VOCABULARY, WIDTH, Language, Pair, batch, net
from releases import FSDP2, PIPELINES
from torch import distributed, nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import flopsight

CPU = torch.device("cpu")
MICROBATCHES = 4


def mesh(name):
    return init_device_mesh("cpu", (2,), mesh_dim_names=(name,))


def twice(measure):
    """First and second call: what a library sets up in its first step must not show."""
    return measure(), measure()


def divided_pair():
    return parallelize_module(Pair(), mesh("tp"), {"up": ColwiseParallel(), "down": RowwiseParallel()})


def tensor_parallel():
    model, x = divided_pair(), batch()
    return twice(lambda: flopsight.count(model, (x,)))


def tensor_parallel_training():
    model, x = divided_pair(), batch()
    optimizer = torch.optim.AdamW(model.parameters())
    before = [parameter.to_local().clone() for parameter in model.parameters()]
    counted = twice(lambda: flopsight.count(model, (x,), train=True, optimizer=optimizer))
    same = all(torch.equal(old, new.to_local()) for old, new in zip(before, model.parameters(), strict=True))
    return *counted, same, len(optimizer.state)


def sharded(**options):
    model = net()
    for block in model:
        fully_shard(block, mesh=mesh("dp"), **options)
    return fully_shard(model, mesh=mesh("dp"))


def fsdp2():
    model, x = sharded(), batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def fsdp2_with_optimizer():
    model, x = sharded(), batch()
    optimizer = torch.optim.AdamW(model.parameters())
    return twice(lambda: flopsight.count(model, (x,), train=True, optimizer=optimizer))


def fsdp2_bf16(**policy):
    model, x = sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, **policy)), batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def fsdp2_kept_whole():
    model, x = sharded(reshard_after_forward=False), batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def fsdp2_recorded():
    model, x = sharded(), batch()
    with flopsight.recording(model) as seen:
        model(x).sum().backward()
    return seen.profile


def fsdp1(use_orig_params):
    model = FullyShardedDataParallel(
        net(), auto_wrap_policy=ModuleWrapPolicy({Pair}), device_id=CPU, use_orig_params=use_orig_params
    )
    x = batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def ddp():
    model, x = DistributedDataParallel(net()), batch()
    return *twice(lambda: flopsight.count(model, (x,), train=True)), flopsight.count(model, (x,), train=True)


def ddp_views():
    model, x = DistributedDataParallel(net(), gradient_as_bucket_view=True), batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def ddp_halves():
    """A communication hook sends a copy of half the size in place of the bucket."""
    model, x = DistributedDataParallel(net()), batch()
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return twice(lambda: flopsight.count(model, (x,), train=True))


def ddp_low_rank():
    """A communication hook of several collectives, each begun when the one before is done."""
    model, x = DistributedDataParallel(net()), batch()
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return [flopsight.count(model, (x,), train=True) for _ in range(4)][2:]


def ddp_without_backward():
    return flopsight.profile(DistributedDataParallel(net()), (batch(),), latency=False)


def replicated():
    """The function of torch that does what DDP does without a wrapper; it sets itself up in the first forward."""
    model, x = replicate(net(), device_mesh=mesh("dp")), batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def checkpointed_shards():
    model, x = net(), batch()
    for name, block in model.named_children():
        setattr(model, name, fully_shard(checkpoint_wrapper(block), mesh=mesh("dp")))
    return flopsight.count(fully_shard(model, mesh=mesh("dp")), (x,), train=True)


def zero_redundancy():
    """torch's optimizer that divides its state over the ranks; how much state the one inside it has afterwards."""
    model, x = DistributedDataParallel(net()), batch()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
    return *twice(lambda: flopsight.count(model, (x,), train=True, optimizer=optimizer)), len(optimizer.optim.state)


def ddp_without_sync():
    model, x = DistributedDataParallel(net()), batch()
    with model.no_sync(), flopsight.recording(model) as quiet:
        model(x).sum().backward()
    with flopsight.recording(model) as loud:
        model(x).sum().backward()
    return quiet.profile, loud.profile


def ddp_static_graph():
    model, x = DistributedDataParallel(net(), static_graph=True), batch()
    return twice(lambda: flopsight.count(model, (x,), train=True))


def ddp_two_buckets():
    model, x = DistributedDataParallel(net(), bucket_cap_mb=4096 / 2**20), batch()
    flopsight.count(model, (x,), train=True)
    return flopsight.count(model, (x,), train=True)


def ddp_timed():
    """Ten times: ranks that disagree on the number of runs would wait for each other for ever."""
    model, x = DistributedDataParallel(net()), batch()
    slow = distributed.get_rank() == 1
    counts = []
    for _ in range(10):
        runs = []
        handle = model.module.register_forward_hook(lambda *_, runs=runs: runs.append(_busy(slow)))
        flopsight.profile(model, (x,), train=True, warmup=2, repeats=3)
        handle.remove()
        counts.append(len(runs))
    return counts


def _busy(slow):
    """Work that takes one rank longer than the other."""
    return sum(range(20_000)) if slow else 0


def compiled():
    """Counted as plain Python; what is compiled runs afterwards."""
    x = batch()
    profiles = []
    for model in (DistributedDataParallel(net()), sharded()):
        fast = torch.compile(model, backend="eager")
        profiles.append(flopsight.count(fast, (x,), train=True))
        fast(x).sum().backward()
    return profiles


def sequence_and_loss_parallel():
    tokens, labels = torch.randint(VOCABULARY, (SEQUENCES, LENGTH)), torch.randint(VOCABULARY, (TOKENS,))
    model = parallelize_module(Language(), mesh("tp"), {
        "emb": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "blk.norm": SequenceParallel(),
        "blk.ff": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "blk.ff.up": ColwiseParallel(),
        "blk.ff.down": RowwiseParallel(output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    })  # fmt: skip

    def loss(scores):
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels)

    with loss_parallel():
        return twice(lambda: flopsight.count(model, (tokens,), train=True, loss=loss))


def pipeline():
    rank = distributed.get_rank()
    part = nn.Sequential(Pair())
    schedule = ScheduleGPipe(
        PipelineStage(part, rank, 2, CPU),
        n_microbatches=MICROBATCHES,
        loss_fn=lambda out, wanted: (out - wanted).pow(2).mean(),
    )
    x, target = batch(), batch()
    profiles = []
    for _ in range(2):
        part.zero_grad()
        with flopsight.recording(part) as seen:
            schedule.step(x) if rank == 0 else schedule.step(target=target)
        profiles.append(seen.profile)
    return *profiles, flopsight.gather(profiles[0])


class Experts(nn.Module):
    """A router that every rank has, and one expert a rank; tokens go to the expert of their number."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 2, bias=False)
        self.expert = Pair()

    def forward(self, x):
        halves, everyone = [BATCH // 2] * 2, distributed.group.WORLD
        there = functional.all_to_all_single_autograd(x, halves, halves, everyone)
        back = functional.all_to_all_single_autograd(self.expert(there), halves, halves, everyone)
        return back * self.router(x).softmax(-1).amax(-1, keepdim=True)


def experts():
    model, x = Experts(), batch()
    counted = twice(lambda: flopsight.count(model, (x,), train=True))
    return *counted, flopsight.gather(counted[0])


def works_kept():
    """A collective's work holds its tensors, so what a tape holds of it would keep every gathered weight alive."""
    model, x = sharded(), batch()
    with flopsight.recording(model) as seen:
        model(x).sum().backward()
    seen.tape.ops.sites()  # folds the calls
    return [type(value).__name__ for entry in seen.tape.ops._folded for value in leaves(entry) if is_work(value)]


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def is_work(value):
    return isinstance(value, torch.ScriptObject | distributed.Work)


class Attention(nn.Module):
    """One head over sequences of any length."""

    def __init__(self):
        super().__init__()
        self.projections = nn.Linear(WIDTH, 3 * WIDTH, bias=False)

    def forward(self, x):
        query, key, value = self.projections(x).unsqueeze(1).chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def context_parallel_attention():
    """What is said of attention over a divided sequence, and the MACs of a model without attention beside it."""
    sequence = torch.randn(SEQUENCES, LENGTH, WIDTH)
    with context_parallel(mesh("cp"), buffers=[sequence], buffer_seq_dims=[1]):
        plain = flopsight.count(Pair(), (sequence,))
        try:
            flopsight.count(Attention(), (sequence,))
        except flopsight.FlopsightError as problem:
            return str(problem), plain.macs
    return None


def hand_made():
    """A layer whose code reduces by itself: one rank cannot know what the whole is."""

    class Halved(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(WIDTH, 16, bias=False), nn.Linear(16, WIDTH, bias=False)

        def forward(self, x):
            out = self.down(torch.relu(self.up(x)))
            distributed.all_reduce(out)
            return out

    return flopsight.count(Halved(), (batch(),))


def one_rank_raised():
    model = Pair()
    profile = flopsight.count(model, (batch(),))
    mine = profile if distributed.get_rank() == 0 else ValueError("no data here")
    return flopsight.gather(mine)


def one_rank_has_none():
    profile = flopsight.count(Pair(), (batch(),))
    return flopsight.gather(profile if distributed.get_rank() == 0 else None)


def wrapped_names():
    wrapped = flopsight.count(DistributedDataParallel(net()), (batch(),))
    plain = flopsight.count(net(), (batch(),))
    return wrapped, plain


SHARDS = {
    "fsdp2": fsdp2,
    "fsdp2_with_optimizer": fsdp2_with_optimizer,
    "fsdp2_bf16": lambda: fsdp2_bf16(reduce_dtype=torch.bfloat16),
    "fsdp2_bf16_weights": fsdp2_bf16,
    "fsdp2_kept_whole": fsdp2_kept_whole,
    "fsdp2_recorded": fsdp2_recorded,
    "checkpointed_shards": checkpointed_shards,
    "compiled": compiled,
    "works_kept": works_kept,
}
CASES = {
    **(SHARDS if FSDP2 else {}),
    "tensor_parallel": tensor_parallel,
    "tensor_parallel_training": tensor_parallel_training,
    "fsdp1": lambda: fsdp1(use_orig_params=False),
    "fsdp1_orig_params": lambda: fsdp1(use_orig_params=True),
    "ddp": ddp,
    "ddp_views": ddp_views,
    "ddp_halves": ddp_halves,
    "ddp_low_rank": ddp_low_rank,
    "ddp_without_backward": ddp_without_backward,
    "replicated": replicated,
    "zero_redundancy": zero_redundancy,
    "ddp_without_sync": ddp_without_sync,
    "ddp_static_graph": ddp_static_graph,
    "ddp_two_buckets": ddp_two_buckets,
    "ddp_timed": ddp_timed,
    "sequence_and_loss_parallel": sequence_and_loss_parallel,
    **({"pipeline": pipeline} if PIPELINES else {}),
    "experts": experts,
    "context_parallel": context_parallel_attention,
    "hand_made": hand_made,
    "one_rank_raised": one_rank_raised,
    "one_rank_has_none": one_rank_has_none,
    "wrapped_names": wrapped_names,
}
