"""gather(): every rank hands its profile to rank 0 through the job's key-value store; no collective, no waiting for others."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore

from ..capture.hooks.parallel import has_other_ranks
from ..errors import InputError, StateError
from ..results.job import Job
from ..results.profile import Profile
from .join import RankText, join, packed, unpacked

COLLECTOR = 0
"""The rank that gets the job."""
PROFILE, WORDS = b"p", b"w"
"""What a rank sent: a profile, or the reason why it has none."""
_rounds = count()


def gather(profile: Profile | BaseException | None, timeout: float = 30.0) -> Job | None:
    """Rank 0 gets the job with every `profile` that arrives within `timeout` seconds; the other ranks get None at once.

    Every rank calls it, once for each job to be gathered. A rank without a profile hands in None, or the exception
    that it met, and is named among the missing.
    """
    if profile is not None and not isinstance(profile, Profile | BaseException):
        raise InputError(f"gather takes a profile, not {type(profile).__name__}.")
    if not has_other_ranks():
        return _alone(profile)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    store = _store()
    mine = PROFILE + packed(profile) if isinstance(profile, Profile) else WORDS + _why(profile).encode()
    try:
        store.set(str(rank), mine)
    except Exception as problem:
        raise StateError(
            f"Rank {rank} cannot reach the job's key-value store ({type(problem).__name__}): the process that keeps it "
            f"has ended. Save this rank's profile with p.save(path) and merge the files: flopsight merge FOLDER."
        ) from None
    return _collected(store, size, timeout) if rank == COLLECTOR else None


def gather_if_many(profile: Profile | BaseException) -> Job | None:
    """Gather if there are other ranks to gather from; a rank without a profile says why, unless it is the collector."""
    if not has_other_ranks():
        return None
    if not isinstance(profile, Profile) and distributed.get_rank() == COLLECTOR:
        return None
    try:
        return gather(profile)
    except Exception:  # the profile of this rank is there, and no trouble among ranks may hide it
        return None


def _alone(profile: Profile | BaseException | None) -> Job:
    if not isinstance(profile, Profile):
        raise StateError("There is no profile to gather, and no process group to gather others from.")
    if profile.world.size > 1:
        raise StateError(
            f"There is no process group to gather {profile.world.size} ranks through: it is not initialized, or destroyed "
            f"already. Gather before destroy_process_group(), or save every rank's profile and run: flopsight merge FOLDER"
        )
    return Job({profile.world.rank: profile}, 1)


def _why(problem: BaseException | None) -> str:
    if problem is None:
        return "it has no profile."
    return f"{type(problem).__name__} was raised: {problem}".splitlines()[0]


def _store() -> Any:
    """A part of the job's store for this round. Every rank numbers its rounds, so the prefixes match without communication."""
    return PrefixStore(f"flopsight/gather/{next(_rounds)}", job_store())


def job_store() -> Any:
    """The job's key-value store."""
    return distributed.distributed_c10d._get_default_store()


def _collected(store: Any, size: int, timeout: float) -> Job:
    end = time.monotonic() + timeout
    sources: list[RankText] = []
    problems: dict[int, str] = {}
    for rank in range(size):
        key = str(rank)
        try:
            store.wait([key], timedelta(seconds=max(0.05, end - time.monotonic())))
            sent = store.get(key)
        except Exception:  # a store raises what it likes when time is up
            problems[rank] = f"it did not arrive within {timeout:g} s."
            continue
        with suppress(Exception):  # not every store can delete
            store.delete_key(key)
        if sent[:1] == PROFILE:
            sources.append(unpacked(rank, sent[1:]))
        else:
            problems[rank] = sent[1:].decode()
    if not sources:
        raise StateError(f"No rank of {size} has a profile. " + " ".join(f"Rank {r}: {w}" for r, w in problems.items()))
    return join(sources, problems, size)
