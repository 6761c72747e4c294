"""A window of steps of a training loop with AProfiler: parameters, operations, time and activation bytes, by depth.

python examples/aprofiler_window.py
"""

import torch
from torch import nn

from flopsight import AProfiler

start_step = 2
end_step = 6

model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
prof = AProfiler(model)
for step in range(8):
    if step == start_step:
        prof.start_profile()

    loss = model(torch.randn(32, 64)).square().mean()

    if step == end_step:
        prof.stop_profile()
        print(f"{prof.get_total_macs():,} MACs in steps {start_step} to {end_step}")
        prof.print_model_profile(profile_step=step)
        prof.end_profile()

    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
