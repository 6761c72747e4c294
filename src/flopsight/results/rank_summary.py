"""A rank's profile without its tree: the totals in one node, and a fingerprint that says which ranks' trees are equal."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from .comm import merged
from .node import Node, rebuilt
from .profile import Profile
from .records import Parameter


def summary_of(profile: Profile) -> Profile:
    """The same totals in a tree of one node."""
    root = profile.root
    cut = Node(
        path="",
        name=root.name,
        kind=root.kind,
        own=root.total,
        parameters=_totals(root),
        calls=root.calls,
        input_shapes=root.input_shapes,
        output_shapes=root.output_shapes,
        latency=root.latency,
        backward_latency=root.backward_latency,
        own_activation_bytes=root.activation_bytes,
        own_peak_bytes=root.peak_bytes,
        comm=profile.comm,
        setup_comm=profile.setup_comm,
    )
    return replace(profile, root=cut, timeline=(), memory_curve=None, data_flow=None)


def fingerprint(root: Node) -> str:
    """Equal for two trees with the same modules, costs, parameters and communication, whatever time they took."""
    digest = hashlib.sha1(usedforsecurity=False)
    for node in root.walk():
        facts = (
            node.path,
            node.kind,
            node.own,
            node.parameters,
            node.calls,
            node.own_activation_bytes,
            node.own_peak_bytes,
            [(row.op, row.phase, row.calls, row.bytes, row.group_size, row.dim) for row in merged(node.comm)],
        )
        digest.update(repr(facts).encode())
    return digest.hexdigest()


def without_times(root: Node) -> Node:
    """The tree with no module's time."""
    gone: dict[str, Any] = dict.fromkeys(("latency", "backward_latency", "host_latency", "stream_latency"))
    return rebuilt(root, lambda node, children: replace(node, children=children, **gone))


def _totals(root: Node) -> tuple[Parameter, ...]:
    """One parameter for each kind of them, with the elements and bytes of all."""
    kinds: dict[tuple[int, bool, bool, float | None], list[Parameter]] = {}
    for one in root.distinct_parameters:
        kinds.setdefault((one.itemsize, one.trainable, one.expert, one.active), []).append(one)
    return tuple(
        Parameter(
            key=key,
            name="all",
            numel=sum(one.numel for one in alike),
            itemsize=itemsize,
            trainable=trainable,
            whole_numel=sum(one.elements for one in alike),
            state_bytes=sum(one.state_bytes for one in alike),
            expert=expert,
            active=active,
            read_bytes=sum(one.most_read for one in alike),
            held_bytes=sum(one.nbytes for one in alike),
        )
        for key, ((itemsize, trainable, expert, active), alike) in enumerate(kinds.items())
    )
