"""Mixed precision: autocast and a gradient scaler, whose scale overflows now and then, so that it skips an update."""

import torch
from torch import nn


class Mlp(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))


def main(steps: int = 12) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=3e38, growth_interval=3)
    for step in range(steps):
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = 8 * nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item():.17g} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
