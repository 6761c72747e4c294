"""The lane's modules import each other by name; torchvision needs its ops before anything imports it."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from lanes import torchvision_ops

sys.path.insert(0, str(Path(__file__).parent))
torchvision_ops.define()
import_module("torch_geometric")  # it replaces torch.select for good, which no test of ours may seem to have done
sys.modules.setdefault("torchaudio", ModuleType("torchaudio"))  # encodec imports it to read files, which no model does
torch.set_num_threads(1)  # threads that wait for each other on a busy machine take minutes
