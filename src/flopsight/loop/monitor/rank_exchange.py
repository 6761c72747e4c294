"""Figures of the whole job: each rank leaves its own in the job's store now and then, and rank 0 reads what is there.

It uses no collective and waits for no rank: figures that a rank has not left yet are missing. A thread does it, over a
connection of its own if the store can give one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from statistics import median
from time import time
from typing import Any

from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore

from ...distributed.gather import job_store
from ...results.run import PREFIX, Interval, SlowStep
from ...results.world import World

PERIOD = 2.0
"""Seconds between two exchanges."""
STALE = 60.0
"""Seconds after which the figures that a rank left are too old to use."""
MOST_SLOW = 50
"""Slow steps that a rank says something about: the latest."""
JOB = PREFIX + "job/"
_rounds = count()


class RankExchange:
    """One rank of a job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mine: dict[str, Any] | None = None
        self._job: dict[str, float] = {}
        self._slow: dict[int, str] = {}
        """Why the latest slow steps of this rank were slow."""
        self._others: dict[int, dict[int, str]] = {}
        """On rank 0, the same of the other ranks: by step, then by rank."""
        self._stop = threading.Event()
        plain = job_store()
        store = plain.clone() if hasattr(plain, "clone") else plain
        self._store = PrefixStore(f"flopsight/monitor/{next(_rounds)}", store)
        self._thread = threading.Thread(target=self._run, name="flopsight ranks", daemon=True)
        self._thread.start()

    @staticmethod
    def of(world: World) -> RankExchange | None:
        """The exchange of this process; None if it is alone, or there is no store to be reached."""
        try:
            if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
                return RankExchange(world)
        except Exception:
            return None
        return None

    def put(self, interval: Interval, slow: Iterable[SlowStep] = ()) -> dict[str, float]:
        """Leave this rank's figures and slow steps; gives the figures of the job, as far as they are known."""
        self._slow = dict([*self._slow.items(), *((one.step, one.why) for one in slow)][-MOST_SLOW:])
        self._mine = {
            "at": time(),
            "mfu": interval.mfu,
            "hfu": interval.hfu,
            "flops": interval.model_flops,
            "tokens": interval.tokens_per_second,
            "own": interval.own_seconds,
            "slow": self._slow,
        }
        return self._job

    def explained(self, slow: SlowStep) -> SlowStep:
        """A slow step of this rank with what the other ranks say of the same step: all wait for the slowest."""
        others = [f"rank {rank}: {why}" for rank, why in sorted(self._others.get(slow.step, {}).items())]
        return replace(slow, why="; ".join([slow.why, *others]))

    def finish(self) -> dict[str, float]:
        """Exchange once more, and stop; gives the figures of the job."""
        self._stop.set()
        self._thread.join(PERIOD)
        return self._job

    def _run(self) -> None:
        over = False
        while not over:
            over = self._stop.wait(PERIOD)
            try:
                self._exchange()
            except Exception:
                return  # the process that keeps the store has ended

    def _exchange(self) -> None:
        rank, size = distributed.get_rank(), distributed.get_world_size()
        if self._mine is not None:
            self._store.set(str(rank), json.dumps(self._mine))
        if rank == 0:
            there = [str(other) for other in range(size) if self._store.check([str(other)])]
            found = {int(key): json.loads(self._store.get(key)) for key in there}
            self._job = job_figures(found, self._world)
            for other, one in found.items():
                for step, why in one["slow"].items() if other else ():
                    self._others.setdefault(int(step), {})[other] = why
            for step in sorted(self._others)[:-MOST_SLOW]:
                del self._others[step]


def job_figures(found: Mapping[int, Mapping[str, Any]], world: World) -> dict[str, float]:
    """Figures of the job from those of its ranks; ranks that share a model share its tokens, too."""
    latest = max((one["at"] for one in found.values()), default=0.0)
    ranks = {rank: one for rank, one in found.items() if latest - one["at"] < STALE}
    result: dict[str, float] = {JOB + "ranks": len(ranks)}
    for name in ("mfu", "hfu"):
        values = [one[name] for one in ranks.values()]
        if values and None not in values:
            result[f"{JOB}{name}"] = sum(values) / len(values)
    flops = [one["flops"] for one in ranks.values()]
    if flops and None not in flops:
        result[f"{JOB}model_flops"] = sum(flops)
    tokens = [one["tokens"] for one in ranks.values()]
    if tokens and None not in tokens:
        result[f"{JOB}tokens_per_second"] = sum(tokens) / max(1, world.model_parallel)
    own = {rank: one["own"] for rank, one in ranks.items() if one["own"] is not None}
    if len(own) > 1:
        slowest = max(own, key=lambda rank: own[rank])
        result[f"{JOB}slowest_rank"] = slowest
        result[f"{JOB}slowest_excess_seconds"] = own[slowest] - median(own.values())
    return result
