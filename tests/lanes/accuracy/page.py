"""Write docs/accuracy.md anew."""

import torch
from lanes import torchvision_ops

torchvision_ops.define()
torch.set_num_threads(1)

from tables import PAGE, page  # noqa: E402, torchvision's ops come first

PAGE.write_text(page())
print(PAGE)
