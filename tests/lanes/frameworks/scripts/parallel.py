"""Two ranks through a framework: Hugging Face's tensor parallel plan, Lightning with FSDP2. One pickle a rank.

torchrun --nproc-per-node 2 parallel.py FRAMEWORK
"""

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


torch.set_num_threads(1)
found = {"tp_plan": tensor_parallel_plan, "lightning": lightning}[sys.argv[1]]()
Path(f"rank{RANK}.pickle").write_bytes(pickle.dumps(found))
distributed.barrier()
distributed.destroy_process_group()
