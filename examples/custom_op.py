"""A kernel that torch cannot look into is unknown until it has a formula; then it is counted as every other op.

An op that is written in torch's own ops needs no formula: those are seen.

python examples/custom_op.py
"""

from operator import mul

import torch
from torch import nn

import flopsight


@torch.library.custom_op("shop::scaled_product", mutates_args=())
def scaled_product(x: torch.Tensor, w: torch.Tensor, scale: float) -> torch.Tensor:
    """Stands for a hand-written kernel: torch sees nothing of the work."""
    columns = list(zip(*w.tolist(), strict=True))
    return torch.tensor([[scale * sum(map(mul, row, column)) for column in columns] for row in x.tolist()])


@scaled_product.register_fake
def _(x, w, scale):
    return x.new_empty(*x.shape[:-1], w.shape[-1])


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 32))

    def forward(self, x):
        return scaled_product(x, self.weight, 0.5)


def main():
    x = torch.randn(8, 64)
    before = flopsight.count(Layer(), (x,))
    for name, op in before.coverage.unknown.items():
        print(f"{name} is unknown: {op.why}")

    @flopsight.formula("shop.scaled_product")
    def cost(call: flopsight.OpRecord) -> flopsight.Cost:
        rows, inner = call.shape("x")
        columns = call.shape("w")[1]
        macs = rows * inner * columns
        return flopsight.Cost(macs=macs, flops=2 * macs + rows * columns)

    after = flopsight.count(Layer(), (x,), strict=True)
    print(after)
    return before, after


if __name__ == "__main__":
    main()
