"""DeepSpeed runs on the CPU here, and small models run fastest on one thread."""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

import torch  # noqa: E402

torch.set_num_threads(1)
