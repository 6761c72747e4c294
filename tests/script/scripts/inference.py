"""An inference loop: no optimizer anywhere."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)).softmax(-1)


def main(batches: int = 9) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier().eval()
    for batch in range(batches):
        with torch.inference_mode():
            scores = model(torch.randn(7, 12))
        print(f"batch {batch} best {scores.max().item():.17g}")


if __name__ == "__main__":
    main()
