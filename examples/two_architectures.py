"""Two ways to build the same layer, side by side: a convolution, and the two thinner ones that replace it.

python examples/two_architectures.py
"""

import torch
from torch import nn

import flopsight


def main():
    images = torch.randn(4, 64, 32, 32)
    dense = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1, bias=False), nn.ReLU())
    separable = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), nn.Conv2d(64, 128, 1, bias=False), nn.ReLU()
    )
    comparison = flopsight.compare(flopsight.count(dense, (images,)), flopsight.count(separable, (images,)))
    print(comparison)
    return comparison


if __name__ == "__main__":
    main()
