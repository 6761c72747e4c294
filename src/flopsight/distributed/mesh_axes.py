"""The axes of a mesh, as a user writes them: `fsdp=128,tp=8`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from ..errors import InputError, did_you_mean

AXES = {
    "pp": "stages of a pipeline",
    "dp": "replicas, each with a batch of its own",
    "fsdp": "shards of every parameter (FSDP2), each rank with a batch of its own",
    "cp": "parts of a sequence",
    "ep": "groups of experts",
    "tp": "parts of every layer's products",
}
"""What each axis divides, from the ranks that are furthest apart to those that talk most."""
EXAMPLE = "fsdp=128,tp=8"
_ITEM = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?P<size>\d+)\s*")


def parse_mesh(text: str) -> dict[str, int]:
    """The mesh that `fsdp=128,tp=8` describes."""
    found: dict[str, int] = {}
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise InputError(f"{item.strip()!r} is not an axis of a mesh: write name=size, as in --mesh {EXAMPLE}.")
        if match["name"] in found:
            raise InputError(f"The mesh has the axis {match['name']!r} twice; give each axis one size.")
        found[match["name"]] = int(match["size"])
    return check_mesh(found)


def check_mesh(mesh: Mapping[str, int]) -> dict[str, int]:
    """The mesh with its axes in the order of `AXES`; raises InputError for axes without a meaning and sizes below 1."""
    if not isinstance(mesh, Mapping) or not mesh:
        raise InputError(f'A mesh is a dict of sizes by axis, like {{"fsdp": 128, "tp": 8}}, not {mesh!r}.')
    for name, size in mesh.items():
        if name not in AXES:
            meanings = "; ".join(f"{axis}: {meaning}" for axis, meaning in AXES.items())
            hint = did_you_mean(str(name), AXES)
            raise InputError(f"There is no axis {name!r} of a mesh.{hint or f' There are {meanings}.'}")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"The axis {name!r} of the mesh needs a whole number of ranks above 0, not {size!r}.")
    return {name: mesh[name] for name in AXES if name in mesh}


def check_dry(mesh: Mapping[str, int], rank: int) -> None:
    """Refuse axes that a dry run cannot put together, and a rank outside the mesh."""
    experts, tensors, copies = (mesh.get(name, 1) for name in ("ep", "tp", "dp"))
    if experts > 1 and tensors > 1:
        raise InputError(
            f"A dry run divides experts over ep={experts} or every expert over tp={tensors}, not both: leave one of them out."
        )
    if max(experts, tensors) > 1 and mesh.get("fsdp", 1) == 1 and max(copies, mesh.get("cp", 1)) > 1:
        why = (
            "DistributedDataParallel would average tensors that tp divides, which it does not take"
            if tensors > 1
            else "ranks with the same experts would average gradients apart from all others, which DistributedDataParallel does not do"
        )
        raise InputError(f"In {written(mesh)}, {why}: shard them, with fsdp in the place of dp or beside cp.")
    ranks = prod(mesh.values())
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < ranks:
        raise InputError(f"There is no rank {rank!r} among the {ranks} of {written(mesh)}; ranks count from 0.")


def written(mesh: Mapping[str, int]) -> str:
    """The mesh as a user writes it."""
    return ",".join(f"{name}={size}" for name, size in mesh.items())
