"""Two ranks through a framework: Hugging Face's tensor parallel plan; Lightning, Accelerate and the Trainer with FSDP2. One pickle a rank.

torchrun --nproc-per-node 2 parallel.py FRAMEWORK
"""

import gc
import os
import pickle
import sys
from pathlib import Path

import torch
from torch import distributed

sys.path.insert(0, str(Path(__file__).parents[3]))

from distributed.nets import batch, net  # noqa: E402

import flopsight  # noqa: E402

RANK = int(os.environ["RANK"])


def tensor_parallel_plan():
    """A Llama that transformers spreads over the ranks, beside the same one whole."""
    from transformers import LlamaConfig, LlamaForCausalLM

    distributed.init_process_group("gloo")
    config = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=64, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    if RANK == 0:
        LlamaForCausalLM(config).save_pretrained("llama")
    distributed.barrier()
    tokens = torch.randint(0, 64, (2, 8), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": tokens, "labels": tokens}
    alone = flopsight.count(LlamaForCausalLM.from_pretrained("llama"), kwargs=inputs, train=True)
    spread = LlamaForCausalLM.from_pretrained("llama", tp_plan="auto")
    return alone, *(flopsight.count(spread, kwargs=inputs, train=True) for _ in range(2))


def lightning():
    """Two Pairs under Lightning's ModelParallelStrategy, sharded by the module itself."""
    import lightning as pl
    from lightning.pytorch.strategies import ModelParallelStrategy
    from torch.distributed.fsdp import fully_shard

    from flopsight.integrations.lightning import FlopsightCallback

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def configure_model(self):
            mesh = self.device_mesh["data_parallel"]
            for block in self.net:
                fully_shard(block, mesh=mesh)
            fully_shard(self.net, mesh=mesh)

        def training_step(self, rows, _index):
            return self.net(rows).sum()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    callback = FlopsightCallback(steps=(1, 2))
    trainer = pl.Trainer(
        accelerator="cpu", devices=2, strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1),
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=False, callbacks=[callback],
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader([batch()] * 4, batch_size=None))
    return (callback.profile,)


def take_cpus_for_gpus():
    """Accelerate shards only where its devices are accelerators, and leaves the plugin aside on CPUs; all else runs as it is."""
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    PartialState(cpu=True)
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def accelerate():
    """Two Pairs that Accelerate shards, each compiled or not, in a loop with a step profiler."""
    from accelerate import Accelerator, FullyShardedDataParallelPlugin

    from flopsight.integrations.accelerate import step_profiler

    take_cpus_for_gpus()
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Pair"],
        cpu_ram_efficient_loading=False,
    )  # fmt: skip
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    assert accelerator.is_fsdp2
    model = net()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    with step_profiler(accelerator, model, optimizer, steps=(1, 2)) as prof:
        for _ in range(4):
            accelerator.backward(model(batch()).sum())
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    return (prof.profile,)


def trainer():
    """A small Llama that the Trainer shards, with more steps after the window, beside the same one by itself."""
    from lanes.frameworks import tiny_llama
    from transformers import Trainer, TrainingArguments

    from flopsight.integrations.transformers import FlopsightCallback

    arguments = TrainingArguments(
        output_dir="out", use_cpu=True, max_steps=4, per_device_train_batch_size=tiny_llama.BATCH, save_strategy="no",
        report_to=[], disable_tqdm=True, fsdp=True,
        fsdp_config={"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]},
    )  # fmt: skip
    assert arguments.device.type == "cpu"  # which sets Accelerate up anew
    take_cpus_for_gpus()
    callback = FlopsightCallback(steps=(1, 2))
    run = Trainer(tiny_llama.model(), arguments, train_dataset=tiny_llama.dataset(64), callbacks=[callback])
    assert run.accelerator.is_fsdp2
    run.train()
    alone = flopsight.count(tiny_llama.model().train(), kwargs=tiny_llama.batch(), train=True)
    return callback.profile, alone, len(run.state.log_history)


def compiled():
    """DDP and FSDP2 around compiled blocks, and compiled around DDP and FSDP2, trained once before they are counted."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))

    def sharded(model):
        for block in model:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def compile_blocks(model):
        for block in model:
            block.compile(backend="aot_eager")
        return model

    models = {
        "compiled DDP": torch.compile(DistributedDataParallel(net()), backend="aot_eager"),
        "compiled FSDP2": torch.compile(sharded(net()), backend="aot_eager"),
        "DDP of compiled blocks": DistributedDataParallel(compile_blocks(net())),
        "FSDP2 of compiled blocks": sharded(compile_blocks(net())),
    }
    found = {}
    for name, model in models.items():
        for _ in range(2):
            model(batch()).sum().backward()
        found[name] = flopsight.count(model, (batch(),), train=True)
    return found


torch.set_num_threads(1)
FRAMEWORKS = {
    "tp_plan": tensor_parallel_plan,
    "lightning": lightning,
    "accelerate": accelerate,
    "trainer": trainer,
    "compiled": compiled,
}
found = FRAMEWORKS[sys.argv[1]]()
Path(f"rank{RANK}.pickle").write_bytes(pickle.dumps(found))
distributed.barrier()
distributed.destroy_process_group()
gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
