"""The lane's modules import each other by name."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)  # threads that wait for each other on a busy machine take minutes
