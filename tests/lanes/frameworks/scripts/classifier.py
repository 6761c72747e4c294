"""A small residual network trained with Lightning: clipping, a schedule, a validation each epoch; by choice more batches a
step, and images that grow by a pixel a side with each batch.
"""

import argparse

import lightning.pytorch as pl
import torch
from torch import nn
from torch.nn import functional as F

BATCH, SIZE, WIDTH, BLOCKS, CLASSES = 4, 8, 6, 2, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)

    def forward(self, images):
        return F.relu(images + self.second(F.relu(self.norm(self.first(images)))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = ResNet()

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = F.cross_entropy(self.network(images), labels)
        print("train", batch_idx, loss.item())
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        print("validate", batch_idx, F.cross_entropy(self.network(images), labels).item())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}


def batches(number, seed, growth=0):
    made = torch.Generator().manual_seed(seed)
    sides = [SIZE + growth * place for place in range(number)]
    return [
        (torch.randn(BATCH, 3, side, side, generator=made), torch.randint(CLASSES, (BATCH,), generator=made))
        for side in sides
    ]


def loader(*args):
    return torch.utils.data.DataLoader(batches(*args), batch_size=None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--growing", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    pl.seed_everything(7)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=2,
        accumulate_grad_batches=chosen.accumulate,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), loader(6 * chosen.accumulate, 1, int(chosen.growing)), loader(2, 2))


if __name__ == "__main__":
    main()
