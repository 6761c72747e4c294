"""Two processes that train a linear layer with DistributedDataParallel, monitored; the second may die."""

import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import flopsight

WIDE, OUT = 8, 2


def main(folder: str, dies: bool) -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(WIDE, OUT, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    flopsight.loop.monitor.rank_exchange.PERIOD = 0.05
    with flopsight.monitor(model, optimizer, every=1, to=seen.append):
        for step in range(40):
            if dies and step == 20:
                distributed.barrier()
                if rank == 1:
                    os._exit(0)
                break
            model(torch.randn(4 + rank, WIDE)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(seen))
    if not dies:
        distributed.destroy_process_group()


if __name__ == "__main__":
    import flopsight.loop.monitor.rank_exchange

    main(sys.argv[1], sys.argv[2] == "dies")
