"""ResNet-18 and ResNet-50 (He et al., 2015), with the module names that torchvision gives them."""

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    widens = 1

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = _shortcut(channels_in, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The shortcut plus what the convolutions found."""
        shortcut = x if self.downsample is None else self.downsample(x)
        found = self.relu(self.bn1(self.conv1(x)))
        found = self.bn2(self.conv2(found))
        return self.relu(found + shortcut)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, which narrow and widen, beside a shortcut."""

    widens = 4

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, self.widens * channels, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(self.widens * channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels_in, self.widens * channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The shortcut plus what the convolutions found."""
        shortcut = x if self.downsample is None else self.downsample(x)
        found = self.relu(self.bn1(self.conv1(x)))
        found = self.relu(self.bn2(self.conv2(found)))
        found = self.bn3(self.conv3(found))
        return self.relu(found + shortcut)


Block = type[BasicBlock] | type[Bottleneck]


class ResNet(nn.Module):
    """A thousand classes from 224x224 images, through four stages of blocks; as it stands, ResNet-18."""

    def __init__(
        self, blocks: tuple[int, int, int, int] = (2, 2, 2, 2), block: Block = BasicBlock, classes: int = 1000
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = _stage(block, 64, 64, blocks[0], stride=1)
        self.layer2 = _stage(block, block.widens * 64, 128, blocks[1], stride=2)
        self.layer3 = _stage(block, block.widens * 128, 256, blocks[2], stride=2)
        self.layer4 = _stage(block, block.widens * 256, 512, blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(block.widens * 512, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet50() -> ResNet:
    """ResNet-50: stages of three, four, six and three bottlenecks."""
    return ResNet((3, 4, 6, 3), Bottleneck)


def _shortcut(channels_in: int, channels: int, stride: int) -> nn.Module | None:
    """What makes a block's input fit its output; nothing if it fits already."""
    if stride == 1 and channels_in == channels:
        return None
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(channels)
    )


def _stage(block: Block, channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    first = block(channels_in, channels, stride)
    return nn.Sequential(first, *(block(block.widens * channels, channels, 1) for _ in range(blocks - 1)))


def inputs(batch: int) -> dict[str, Tensor]:
    """Colour images."""
    return {"images": torch.randn(batch, 3, 224, 224)}
