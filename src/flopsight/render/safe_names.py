"""A profile whose names and sentences print: what every format draws, except those that escape text by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, overload

from ..files.printable import one_line, printable
from ..results.job import Job
from ..results.node import Node, build_up
from ..results.profile import Profile


@overload
def safe_names(profiled: Profile) -> Profile: ...


@overload
def safe_names(profiled: Job) -> Job: ...


@overload
def safe_names(profiled: Profile | Job) -> Profile | Job: ...


def safe_names(profiled: Profile | Job) -> Profile | Job:
    """The same profile, or job, with every text in it escaped."""
    if isinstance(profiled, Profile):
        return _safe_profile(profiled, _safe_tree(profiled.root))
    trees = {id(profile.root): _safe_tree(profile.root) for profile in profiled.ranks.values()}  # ranks share them
    ranks = {rank: _safe_profile(profile, trees[id(profile.root)]) for rank, profile in profiled.ranks.items()}
    problems = {rank: one_line(why) for rank, why in profiled.problems.items()}
    return replace(profiled, ranks=ranks, problems=problems, left_out=tuple(map(one_line, profiled.left_out)))


def _safe_profile(profile: Profile, root: Node) -> Profile:
    texts = ("coverage", "environment", "caveats", "at_peak", "memory_curve", "peak_flops", "world", "part")
    changed = {name: _each_text(getattr(profile, name), one_line) for name in texts}
    return replace(profile, root=root, **changed)


def _safe_tree(root: Node) -> Node:
    """The tree itself where nothing in it needs escaping."""
    if all(map(_is_safe, root.walk())):
        return root
    return build_up(root, lambda node: node.children, _safe_node)


def _is_safe(node: Node) -> bool:
    return (
        node.path.isprintable()
        and node.name.isprintable()
        and node.kind.isprintable()
        and (not node.extra_repr or node.extra_repr.replace("\n", " ").isprintable())
        and all(row.op.isprintable() and row.dtype.isprintable() for row in node.ops)
        and all((row.dim or "").isprintable() and all(map(str.isprintable, row.holds)) for row in node.comm)
        and all((row.dim or "").isprintable() and all(map(str.isprintable, row.holds)) for row in node.setup_comm)
    )


def _safe_node(node: Node, children: tuple[Node, ...]) -> Node:
    return replace(
        node,
        children=children,
        path=printable(node.path),
        name=printable(node.name),
        kind=printable(node.kind),
        extra_repr=printable(node.extra_repr, keep="\n"),
        ops=_each_text(node.ops, printable),
        comm=_each_text(node.comm, printable),
        setup_comm=_each_text(node.setup_comm, printable),
    )


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every text inside it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_each_text(item, change) for item in value)
    if isinstance(value, Mapping):
        return {change(key): _each_text(item, change) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _each_text(getattr(value, f.name), change) for f in fields(value)})
    return value
