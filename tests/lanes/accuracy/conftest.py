"""The lane's modules import each other by name; torchvision needs its ops before anything imports it."""

import sys
from pathlib import Path

import torch
from lanes import torchvision_ops

sys.path.insert(0, str(Path(__file__).parent))
torchvision_ops.define()
torch.set_num_threads(1)  # threads that wait for each other on a busy machine take minutes
