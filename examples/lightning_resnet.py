"""A ResNet-18 trained by Lightning, with a window of its steps profiled.

pip install lightning
python examples/lightning_resnet.py
"""

import tempfile
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

from flopsight import zoo
from flopsight.integrations.lightning import FlopsightCallback


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = zoo.build("resnet18").model

    def training_step(self, batch, _batch_idx):
        images, labels = batch
        return F.cross_entropy(self.network(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    folder = Path(tempfile.mkdtemp())
    data = TensorDataset(torch.randn(32, 3, 32, 32), torch.randint(1000, (32,)))

    callback = FlopsightCallback(steps=range(2, 6), save_to=folder / "profile.json")
    trainer = pl.Trainer(max_epochs=1, callbacks=[callback], logger=False, enable_checkpointing=False)
    trainer.fit(Classifier(), DataLoader(data, batch_size=4))

    print(callback.profile.render("tree", depth=2))
    print(f"{callback.profile.macs:,} MACs a step, saved in {folder / 'profile.json'}")


if __name__ == "__main__":
    main()
