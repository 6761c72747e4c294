"""The profiles of many ranks become one job: from their files, or through the running job's own key-value store."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..errors import InputError, ProfileFileError
from ..files import store
from ..files.whole_files import read_first_line, read_text
from ..results.job import Job
from ..results.node import Node
from ..results.profile import Profile
from ..results.rank_summary import without_times

FEW = 16
"""Ranks up to which every tree is kept with its times; of more ranks, those with equal costs share one tree."""
SUFFIX = ".json"


@dataclass(frozen=True)
class RankText:
    """Where a rank's profile is to be had: its first line at once, the rest when it is needed."""

    name: str
    first_line: Callable[[], str]
    text: Callable[[], str]

    def full(self) -> Profile:
        """The profile with its tree."""
        found = store.loads(self.text(), self.name)
        if not isinstance(found, Profile):
            what = "a job already" if isinstance(found, Job) else f"a {type(found).__name__.lower()}"
            raise ProfileFileError(f"{self.name} is {what}, not the profile of one rank.")
        return found


def merge(folder: str | Path) -> Job:
    """The job that the rank files in a folder make up; what is not a rank's profile is named and left out."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder with the profiles of ranks. Save one per rank there: p.save(path).")
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and not path.is_dir())
    if not paths:
        raise InputError(f"{folder} holds no .json file. Save one profile per rank there: p.save(path).")
    return join([_from_file(path) for path in paths])


def join(sources: Iterable[RankText], problems: Mapping[int, str] | None = None, size: int | None = None) -> Job:
    """One job out of the sources; those that cannot be read are named in its problems, or as left out."""
    summaries: dict[int, tuple[RankText, str, Profile]] = {}
    unread: list[str] = []
    for source in sources:
        try:
            tree, profile = store.loads_summary(source.first_line(), source.name) or ("", source.full())
        except ProfileFileError as problem:
            unread.append(str(problem))
            continue
        _check_same_job(source, profile, summaries)
        summaries[profile.world.rank] = source, tree, profile
    if not summaries:
        raise InputError(" ".join(unread) or "No rank has a profile.")
    world = next(iter(summaries.values()))[2].world
    found = dict(problems or {})
    lost = [rank for rank in range(size or world.size) if rank not in summaries and rank not in found]
    found |= dict(zip(lost, unread, strict=False))  # a file that cannot be read does not say whose it is
    return Job(_profiles(summaries), size or world.size, found, tuple(unread[len(lost) :]))


def _check_same_job(source: RankText, profile: Profile, seen: Mapping[int, tuple[RankText, str, Profile]]) -> None:
    if not seen:
        return
    other, _, first = next(iter(seen.values()))
    if profile.world.size != first.world.size:
        raise InputError(
            f"{other.name} and {source.name} are of different jobs: one of {first.world.size} ranks, one of "
            f"{profile.world.size}. Merge one job's folder at a time."
        )
    if profile.environment.job != first.environment.job:
        raise InputError(
            f"{other.name} and {source.name} are of different jobs ({first.environment.job or 'unnamed'} and "
            f"{profile.environment.job or 'unnamed'}). Merge one job's folder at a time."
        )
    if profile.world.rank in seen:
        raise InputError(
            f"{seen[profile.world.rank][0].name} and {source.name} both say that they are rank {profile.world.rank}: "
            f"they are of different runs. Keep one run in the folder."
        )


def _profiles(summaries: Mapping[int, tuple[RankText, str, Profile]]) -> dict[int, Profile]:
    """Every rank's profile; of many ranks with the same tree, one keeps its times module by module."""
    found: dict[int, Profile] = {}
    trees: dict[str, Node] = {}
    for rank, (source, tree, summary) in sorted(summaries.items()):
        if not tree:
            found[rank] = summary
        elif len(summaries) <= FEW or tree not in trees:
            found[rank] = source.full()
            if len(summaries) > FEW:
                trees[tree] = without_times(found[rank].root)
        else:
            found[rank] = replace(summary, root=trees[tree])
    return found


def _from_file(path: Path) -> RankText:
    def by(read: Callable[[Path], str]) -> str:
        try:
            return read(path)
        except (OSError, UnicodeDecodeError) as problem:
            raise ProfileFileError(f"{path} cannot be read: {problem}.") from None

    return RankText(str(path), partial(by, read_first_line), partial(by, read_text))


def packed(profile: Profile) -> bytes:
    """A profile as it travels between ranks."""
    return gzip.compress(store.dumps(profile).encode(), 1)


def unpacked(rank: int, data: bytes) -> RankText:
    """What a rank sent, as a source."""
    text = gzip.decompress(data).decode()
    return RankText(f"What rank {rank} sent", lambda: text.partition("\n")[0], lambda: text)
