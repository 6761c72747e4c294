"""Write docs/accuracy.md and its data files anew."""

import torch
from lanes import torchvision_ops

torchvision_ops.define()
torch.set_num_threads(1)

from tables import files  # noqa: E402, torchvision's ops come first

for path, text in files().items():
    path.write_text(text, encoding="utf-8")
    print(path)
