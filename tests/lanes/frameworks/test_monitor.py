"""`monitor=True` in real trainings of a tiny Llama: FLOPs of every step by arithmetic, losses as without us."""

import torch
from accelerate import Accelerator
from lanes.frameworks import tiny_llama
from lanes.frameworks.test_trainer import make_trainer
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

import flopsight
from flopsight.integrations.accelerate import step_profiler
from flopsight.integrations.lightning import FlopsightCallback as LightningCallback
from flopsight.integrations.transformers import FlopsightCallback


def step_flops():
    """The products of the forward, and twice them in backward: every product has a gradient for each of its factors."""
    return 2 * 3 * tiny_llama.macs()


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def trained(folder, callback=None, **options):
    torch.manual_seed(0)
    trainer = make_trainer(folder, logging_steps=1, **options)
    if callback is not None:
        callback.attach(trainer)
    trainer.train()
    return trainer


def test_the_trainer_logs_every_interval_and_trains_as_without_us(tmp_path, capsys):
    seen = []
    callback = FlopsightCallback(monitor=True, every=2, to=seen.append)

    trainer = trained(tmp_path, callback, eval_strategy="steps", eval_steps=2)

    assert losses(trainer) == losses(trained(tmp_path, eval_strategy="steps", eval_steps=2))
    assert [record["flopsight/model_flops"] for record in seen] == [step_flops()] * 3
    assert capsys.readouterr().out.count("flopsight/model_flops") == 3  # in the Trainer's own logs
    assert callback.run.steps == 6
    tokens = tiny_llama.BATCH * tiny_llama.TOKENS
    assert callback.run.whole.tokens == 6 * tokens


def test_accumulated_batches_of_the_trainer_are_one_step(tmp_path):
    callback = FlopsightCallback(monitor=True, every=1)

    trained(tmp_path, callback, gradient_accumulation_steps=4, max_steps=3)

    assert [interval.model_flops for interval in callback.run.intervals] == [4 * step_flops()] * 3


class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.model = tiny_llama.model()

    def training_step(self, batch, _index):
        return self.model(**batch).loss

    def validation_step(self, batch, _index):
        self.log("val", self.model(**batch).loss)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def test_lightning_is_monitored_with_a_validation_between_steps(tmp_path):
    callback = LightningCallback(monitor=True, every=2)
    loader = DataLoader(tiny_llama.dataset(6 * tiny_llama.BATCH), batch_size=tiny_llama.BATCH)
    options = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}

    trainer = Trainer(max_steps=6, val_check_interval=3, callbacks=[callback], default_root_dir=tmp_path, **options)
    trainer.fit(Module(), loader, loader)

    assert [interval.model_flops for interval in callback.run.intervals] == [step_flops()] * 3


def test_accelerate_is_monitored(tmp_path):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = tiny_llama.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    with step_profiler(accelerator, model, optimizer, monitor=True, every=1) as live:
        for _ in range(4):
            with accelerator.accumulate(model):
                accelerator.backward(model(**tiny_llama.batch()).loss)
                optimizer.step()
                optimizer.zero_grad()
            live.step()

    assert [interval.model_flops for interval in live.run.intervals] == [2 * step_flops()] * 2


def test_a_loop_like_nanogpts_is_monitored():
    model = tiny_llama.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = []
    with flopsight.monitor(model, optimizer, every=1, to=seen.append) as live:
        for step in range(4):
            if step % 2 == 0:
                model.eval()
                with torch.no_grad():
                    for _ in range(2):
                        model(**tiny_llama.batch())
                model.train()
            for _ in range(3):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(**tiny_llama.batch()).loss / 3
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    assert [record["flopsight/model_flops"] for record in seen] == [3 * step_flops()] * 4
    assert live.summary().whole.validations == 4
