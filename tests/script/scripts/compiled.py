"""A compiled model: fullgraph, so that anything of ours inside the trace would be an error."""

import torch
from torch import nn

GRAPHS = []


def backend(graph: torch.fx.GraphModule, _inputs: list) -> object:
    GRAPHS.append(graph)
    return graph.forward


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 10)
        self.down = nn.Linear(10, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x))) * 2


def main(steps: int = 9) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.compile(Net(), backend=backend, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = model(torch.randn(3, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.17g}")
    print(f"{len(GRAPHS)} graphs")


if __name__ == "__main__":
    main()
