"""Small models on busy machines run fastest on one thread."""

import torch

torch.set_num_threads(1)
