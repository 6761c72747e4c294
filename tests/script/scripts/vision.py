"""A supervised vision training script, as one finds them: argparse, a DataLoader, an epoch loop with validation."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmallResNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = F.relu(x + self.block(x))
        return self.head(self.drop(x.mean((2, 3))))


def evaluate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum().item()
            total += len(labels)
    model.train()
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--samples", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(args.samples, 3, 8, 8), torch.randint(0, 10, (args.samples,)))
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=args.workers)
    model = SmallResNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.17g}")
        print(f"epoch {epoch} accuracy {evaluate(model, loader):.3f}")


if __name__ == "__main__":
    main()
