"""A Triton kernel with its formula. On a GPU the kernel runs; without one the op's plain version does, and the count is the same.

python examples/triton_kernel.py
"""

import torch
from torch import nn

import flopsight

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:

    @triton.jit
    def swiglu_kernel(gate, up, out, size, BLOCK: tl.constexpr):  # noqa: N803
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        x = tl.load(gate + at, inside).to(tl.float32)
        y = tl.load(up + at, inside).to(tl.float32)
        tl.store(out + at, x * tl.sigmoid(x) * y, inside)


@torch.library.custom_op("shop::swiglu", mutates_args=(), device_types="cpu")
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return nn.functional.silu(gate) * up


@swiglu.register_kernel("cuda")
def _(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    swiglu_kernel[(triton.cdiv(gate.numel(), 1024),)](gate, up, out, gate.numel(), BLOCK=1024)
    return out


@swiglu.register_fake
def _(gate, up):
    return torch.empty_like(gate)


@flopsight.formula("shop.swiglu")
def swiglu_cost(call: flopsight.OpRecord) -> flopsight.Cost:
    """A sigmoid (four FLOPs) and two products for each element; one read of both inputs, one write."""
    return flopsight.Cost(flops=6 * call.tensor("gate").numel)


class FeedForward(nn.Module):
    def __init__(self, width=64, hidden=256):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(swiglu(self.gate(x), self.up(x)))


def main():
    on_gpu = torch.cuda.is_available() and triton is not None
    device = "cuda" if on_gpu else "cpu"
    print(
        "the Triton kernel runs"
        if on_gpu
        else "no GPU or no Triton here: the plain version runs, the formula is the same"
    )
    model = FeedForward().to(device)
    profile = flopsight.profile(model, (torch.randn(32, 64, device=device),), repeats=3, strict=True)
    print(profile)
    return profile


if __name__ == "__main__":
    main()
