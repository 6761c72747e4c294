"""LeNet-5 (LeCun et al., 1998) with tanh and average pooling, in two blocks."""

import torch
from torch import Tensor, nn


class LeNet5(nn.Module):
    """Ten digits from 32x32 grey images; 61,706 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.feature_extractor = nn.Sequential(
            nn.Conv2d(1, 6, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(kernel_size=2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(kernel_size=2),
            nn.Conv2d(16, 120, kernel_size=5),
            nn.Tanh(),
        )
        self.classifier = nn.Sequential(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Class scores."""
        return self.classifier(self.feature_extractor(images).flatten(1))


def inputs(batch: int) -> dict[str, Tensor]:
    """Grey images."""
    return {"images": torch.randn(batch, 1, 32, 32)}
