"""A small model, its cost on five rows of four, and sites that find it when it is called."""

from torch import nn

from flopsight.capture.model.sites import Sites
from flopsight.script.search import Search

MACS = 5 * (4 * 3 + 3 * 2)


class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def found():
    return Sites(admits=Search(0, 0).admits)
