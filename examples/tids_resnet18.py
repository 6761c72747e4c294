"""ResNet-18 as TIDSProfiler's documentation has it; only the import is another. Needs torchvision.

python examples/tids_resnet18.py
"""

import torch
from torchvision import models

from flopsight import TIDSProfiler

# construct model and input
model = models.resnet18()
batch_size = 16
input_size = (batch_size, 3, 224, 224)
inputs = torch.randn(input_size)

# start profiling
prof = TIDSProfiler(model)
prof.start_profile()
model(inputs)
profile = prof.generate_profile()
print(profile)
prof.end_profile()
