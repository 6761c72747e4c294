"""The callback for Lightning's Trainer, in real trainings of a small ResNet."""

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn import functional as F

import flopsight
from flopsight import zoo
from flopsight.integrations.lightning import FlopsightCallback

BATCH, SIZE = 2, 32


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = zoo.build("resnet18").model

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = F.cross_entropy(self.network(images), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        self.log("accuracy", (self.network(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Broken(Classifier):
    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            raise RuntimeError("no more")
        return super().training_step(batch, batch_idx)


def loader(batches):
    made = torch.Generator().manual_seed(1)
    images = torch.randn(batches * BATCH, 3, SIZE, SIZE, generator=made)
    labels = torch.randint(1000, (batches * BATCH,), generator=made)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=BATCH)


def fit(folder, callback, module=None, batches=6, **options):
    settings = {"max_epochs": 1, "logger": False, "log_every_n_steps": 1, "enable_checkpointing": False} | options
    trainer = pl.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback] if callback else [],
        **settings,
    )
    module = module or Classifier()
    trainer.fit(module, loader(batches), loader(2))
    return trainer


def counted():
    model = Classifier().network.train()
    images, labels = next(iter(loader(1)))
    return flopsight.count(model, (images,), train=True, loss=lambda scores: F.cross_entropy(scores, labels))


def convolution_macs():
    """ResNet-18 on 32x32 pixels, layer by layer: output places x kernel x channels in x channels out."""
    macs = 16 * 16 * 49 * 3 * 64
    places, width = 8 * 8, 64
    for _ in range(4):
        macs += 4 * places * 9 * width * width
        if width > 64:  # the first convolution of a later stage has half the channels in, and a shortcut
            macs += places * width * width // 2 - places * 9 * width * width // 2
        places, width = max(places // 4, 1), width * 2
    return BATCH * (macs + 512 * 1000)


def test_every_module_costs_what_count_says_forward_and_backward(tmp_path):
    callback = FlopsightCallback(steps=range(2, 5))

    fit(tmp_path, callback)

    expected, profile = counted(), callback.profile
    assert profile.macs == convolution_macs()
    assert profile.params == 11_689_512
    for node in expected.walk():
        if node.path not in ("", "<outside>"):  # the loss is counted below the root there, beside the network here
            found = profile[f"network.{node.path}"]
            assert (found.forward, found.backward, found.calls) == (node.forward, node.backward, node.calls), node.path
    assert profile["network"].macs == expected.macs


def test_the_closure_that_lightning_hands_to_the_optimizer_is_not_the_optimizers_work(tmp_path):
    callback = FlopsightCallback(steps=range(2, 5))

    fit(tmp_path, callback)

    profile = callback.profile
    assert profile.optimizer.flops == 11_689_512  # SGD adds a scaled gradient to every weight, one fused operation
    assert profile.outside.forward.flops == counted().outside.forward.flops + 1, "the loss, and its division by 1"
    timing = profile.timing
    assert timing.forward.median + timing.backward.median + timing.optimizer.median <= timing.step.median


def test_a_step_of_accumulated_gradients_is_all_its_batches(tmp_path):
    callback = FlopsightCallback(steps=range(1, 3))

    fit(tmp_path, callback, batches=8, accumulate_grad_batches=2)

    assert callback.profile.macs == 2 * convolution_macs()
    assert callback.profile["network"].calls == 2
    assert callback.profile.batch_size == 2 * BATCH


def test_the_figures_are_logged_and_the_profile_is_saved(tmp_path):
    callback = FlopsightCallback(steps=range(1, 3), save_to=tmp_path / "deep" / "profile.json")
    logger = TensorBoardLogger(tmp_path, name="", version="events")

    trainer = fit(tmp_path, callback, logger=logger)

    assert trainer.callback_metrics["flopsight/macs"] == convolution_macs()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    logged = events.Scalars("flopsight/macs")
    assert logged[0].step == 2, "in the step after which the window lies behind"
    assert {event.value for event in logged} == {convolution_macs()}, "Lightning repeats it until the epoch ends"
    assert flopsight.load(tmp_path / "deep" / "profile.json").macs == convolution_macs()


def test_a_validation_between_two_steps_is_no_part_of_either(tmp_path):
    callback = FlopsightCallback(steps=range(2, 5))

    fit(tmp_path, callback, val_check_interval=1)

    assert callback.profile["network"].calls == 1
    assert callback.profile.macs == convolution_macs()


def test_training_is_the_same_with_and_without_us(tmp_path):
    with_us, without = Classifier(), Classifier()

    fit(tmp_path, FlopsightCallback(steps=range(2, 5)), with_us)
    fit(tmp_path, None, without)

    for (name, mine), (_, plain) in zip(with_us.state_dict().items(), without.state_dict().items(), strict=True):
        assert torch.equal(mine, plain), name


def test_a_step_that_raises_leaves_nothing_behind(tmp_path):
    callback = FlopsightCallback(steps=range(1, 3))

    with pytest.raises(RuntimeError, match="no more"):
        fit(tmp_path, callback, Broken())

    assert callback.profile is None
