"""A model in a file of your own, for the command line.

flopsight profile examples/lenet.py:model -i 1024x1x32x32 -o lenet.json
flopsight show lenet.json -f deepspeed
"""

from torch import nn


class LeNet5(nn.Module):
    def __init__(self):
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
        self.classifier = nn.Sequential(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))

    def forward(self, images):
        return self.classifier(self.feature_extractor(images).flatten(1))


def model():
    """What the command line calls."""
    return LeNet5()
