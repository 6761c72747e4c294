"""A teacher that only looks on, and a student that learns from it."""

import torch
import torch.nn.functional as F
from torch import nn


class Teacher(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))


class Student(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def main(steps: int = 8) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    teacher, student = Teacher().eval(), Student()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.randn(5, 6)
        with torch.no_grad():
            soft = teacher(x).softmax(-1)
        loss = F.kl_div(student(x).log_softmax(-1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.17g}")


if __name__ == "__main__":
    main()
