"""One way to run a job: its mesh, its batch, and what is kept, gathered and stepped in which precision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from ...errors import InputError, did_you_mean

PRECISIONS = {"bf16": (4, 4, 2), "pure-bf16": (2, 2, 2), "fp32": (4, 4, 4)}
"""Bytes of a weight, of a kept gradient, and of a weight as it is gathered and computed with."""
OPTIMIZERS = {"adamw": 2, "adam": 2, "adam8bit": 2, "adamw8bit": 2, "sgd": 0}
"""Numbers of an optimizer's state for one weight, each as wide as the weight, or one byte."""
WIDTHS = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Case:
    """A job before it is priced. `micro_batch` x `accumulate` x dp x fsdp samples make a step."""

    mesh: Mapping[str, int]
    micro_batch: int
    accumulate: int
    checkpoint: str = "none"
    precision: str = "bf16"
    optimizer: str = "adamw"
    compile: bool = False
    fsdp: Mapping[str, object] = field(default_factory=dict)
    """Switches of FSDP that were given: reshard, reduce, offload, wrap."""

    def axis(self, name: str) -> int:
        """The size of an axis; 1 if the mesh does not have it."""
        return self.mesh.get(name, 1)

    @property
    def gpus(self) -> int:
        """Ranks of the mesh."""
        return prod(self.mesh.values())

    @property
    def split(self) -> int:
        """Ranks over which the work of one micro-batch is divided evenly: tensor, context and expert parallel."""
        return self.axis("tp") * self.axis("cp") * self.axis("ep")

    @property
    def shards(self) -> int:
        """Ranks over which experts are sharded: those of fsdp and, since they share gradients, of cp."""
        return self.axis("fsdp") * self.axis("cp")

    @property
    def dense_shards(self) -> int:
        """Ranks over which everything else is sharded: those of ep share its gradients too."""
        return self.shards * self.axis("ep") if self.shards > 1 else 1

    @property
    def replicas(self) -> int:
        """Ranks with a micro-batch of their own."""
        return self.axis("dp") * self.axis("fsdp")

    @property
    def samples(self) -> int:
        """Samples of a step over all GPUs."""
        return self.micro_batch * self.accumulate * self.replicas

    def apart(self, axis: str) -> int:
        """How many rank numbers lie between neighbours of an axis: the axes after it are nearer."""
        order = ("pp", "dp", "fsdp", "cp", "ep", "tp")
        return prod(self.axis(name) for name in order[order.index(axis) + 1 :])

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight that lasts."""
        return PRECISIONS[self.precision][0]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient that is kept."""
        return PRECISIONS[self.precision][1]

    @property
    def compute_bytes(self) -> int:
        """Bytes of a weight as it is gathered."""
        return PRECISIONS[self.precision][2]

    @property
    def reduce_bytes(self) -> int:
        """Bytes of a gradient on its way between ranks."""
        return WIDTHS.get(str(self.fsdp.get("reduce")), self.compute_bytes)

    @property
    def state_bytes(self) -> int:
        """Bytes of the optimizer's state for one weight."""
        return OPTIMIZERS[self.optimizer] * (1 if self.optimizer.endswith("8bit") else self.weight_bytes)

    @property
    def reshards(self) -> bool:
        """Whether gathered weights are freed after forward; over stages they stay for all micro-batches."""
        given = self.fsdp.get("reshard")
        return self.axis("pp") == 1 if given is None else bool(given)

    @property
    def parts_kept(self) -> int:
        """Ranks of which each keeps a part of gathered weights after forward; 0: they are freed, or stay whole."""
        given = self.fsdp.get("reshard")
        return given if isinstance(given, int) and not isinstance(given, bool) else 0

    @property
    def offloads(self) -> bool:
        """Whether shards, gradients and state live in the host's memory."""
        return bool(self.fsdp.get("offload")) and self.shards > 1

    @property
    def wrap(self) -> int:
        """Blocks that are gathered together."""
        wrap = self.fsdp.get("wrap")
        return wrap if isinstance(wrap, int) else 1


def choice(what: str, value: str, known: Mapping[str, object]) -> str:
    """The one of the known words that is meant: capitals, signs and the order of its parts do not matter."""
    for word in known:
        if isinstance(value, str) and _parts(value) == _parts(word):
            return word
    raise InputError(f"{what} {value!r} is not known here.{did_you_mean(str(value), known)} Known: {', '.join(known)}.")


def _parts(word: str) -> list[str]:
    """`8-bit Adam` and `adam8bit` have the same."""
    return sorted(re.findall(r"8bit|[a-z]+\d*", re.sub(r"8[ -]?bit", " 8bit ", word.lower())))
