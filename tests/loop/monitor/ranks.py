"""Two processes that train a linear layer with DistributedDataParallel, monitored; the second may die."""

import gc
import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import flopsight
from flopsight.loop.monitor import rank_exchange, slow_steps

WIDE, OUT = 8, 2


def main(folder: str, dies: bool) -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(WIDE, OUT, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    rank_exchange.PERIOD = 0.05
    slow_steps.FAR, slow_steps.LEAST_EXCESS = 0.0, -1.0  # every step is slow
    with flopsight.monitor(model, optimizer, every=1, to=seen.append) as live:
        for step in range(40):
            if dies and step == 20:
                distributed.barrier()
                if rank == 1:
                    os._exit(0)
                break
            model(torch.randn(4 + rank, WIDE)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        if not dies:
            exchange_in_turn(live, rank)
    if not dies:
        seen.append({"slow": [slow.why for slow in live.summary().slow]})
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(seen))
    if not dies:
        distributed.destroy_process_group()


def exchange_in_turn(live, rank):
    """Rank 1 leaves its figures, then rank 0 reads them; their threads do so at moments of their own."""
    for turn in (1, 0):
        if rank == turn:
            live._series._ranks._exchange()
        distributed.barrier()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "dies")
    gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
