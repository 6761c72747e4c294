"""Four processes that train together; one is killed on the way, one is slow. Arguments: `plain` or `watched`, and a port."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, KILLED, SLOW, AT = 4, 30, 3, 2, 24
"""A monitor holds the first 16 steps back, until it knows whether the loop calls step(); so the rank is killed after them."""
WIDE, OUT = 8, 2


def train(rank: int, port: str, watched: bool) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(WIDE, OUT, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saved = Path(f"rank{rank}.jsonl")
    with monitored(model, optimizer, saved) if watched else nullcontext():
        for step in range(STEPS):
            if rank == KILLED and step == AT:
                while watched and not (saved.exists() and saved.read_text().count("\n") > 1):
                    os.sched_yield()  # records are written by a thread
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == SLOW:
                torch.ones(400, 400) @ torch.ones(400, 400)
            loss = model(torch.randn(4 + rank, WIDE)).square().sum()
            os.write(1, f"{rank} {step} {loss.item()}\n".encode())  # one write: lines of ranks do not mix
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def monitored(model, optimizer, saved):
    import flopsight
    from flopsight.loop.monitor import rank_exchange

    rank_exchange.PERIOD = 0.01  # many exchanges in a short job, also with the rank that is gone
    return flopsight.monitor(model, optimizer, every=1, to=str(saved))


def main(way: str, port: str) -> None:
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if not child:
            train(rank, port, way == "watched")
            return
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print("codes", *codes, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
